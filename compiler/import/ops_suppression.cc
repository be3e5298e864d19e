// NonMaxSuppression: round after round the best box of each class, and without those that lie over it, until
// none is left.
#include <algorithm>
#include <limits>

#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/ir/loop.h"

namespace rondo::importer {
namespace {

using ir::Builder;

// Boxes as corners, each [batches, 1, boxes].
struct Corners {
  NodeId low_y, low_x, high_y, high_x, area;
};

Corners CornersOf(Builder& b, NodeId boxes, bool centres) {
  const auto column = [&](int64_t k) { return b.Transpose(b.Slice(boxes, 2, k, 1, 1), {0, 2, 1}); };
  Corners corners;
  if (centres) {  // x, y, width, height
    const NodeId half_y = b.BinaryScalar(TapeOp::kMul, column(3), 0.5),
                 half_x = b.BinaryScalar(TapeOp::kMul, column(2), 0.5);
    corners = {b.Sub(column(1), half_y), b.Sub(column(0), half_x), b.Add(column(1), half_y),
               b.Add(column(0), half_x), kNoNode};
  } else {  // two opposite corners, y before x
    const auto sorted = [&](TapeOp op, int64_t k) { return b.Binary(op, column(k), column(k + 2)); };
    corners = {sorted(TapeOp::kMin, 0), sorted(TapeOp::kMin, 1), sorted(TapeOp::kMax, 0),
               sorted(TapeOp::kMax, 1), kNoNode};
  }
  corners.area = b.Mul(b.Sub(corners.high_y, corners.low_y), b.Sub(corners.high_x, corners.low_x));
  return corners;
}

// Whether the intersection is more than `threshold` of the union, of all boxes and one of each class.
NodeId LieOver(Builder& b, const Corners& all, const Corners& one, NodeId threshold) {
  const auto shared = [&](NodeId low, NodeId high, NodeId own_low, NodeId own_high) {
    const NodeId length = b.Sub(b.Binary(TapeOp::kMin, high, own_high), b.Binary(TapeOp::kMax, low, own_low));
    return b.BinaryScalar(TapeOp::kMax, length, 0);
  };
  const NodeId intersection = b.Mul(shared(all.low_y, all.high_y, one.low_y, one.high_y),
                                    shared(all.low_x, all.high_x, one.low_x, one.high_x));
  const NodeId both = b.Sub(b.Add(all.area, one.area), intersection);
  const NodeId zero = b.Scalar(DType::kF32, 0);
  const NodeId meet = b.Binary(TapeOp::kLess, zero, intersection), sane = b.Binary(TapeOp::kLess, zero, both);
  return b.Binary(TapeOp::kBitAnd, b.Binary(TapeOp::kBitAnd, meet, sane),
                  b.Binary(TapeOp::kLess, threshold, b.Div(intersection, both)));
}

// boxes [batches, boxes, 4], scores [batches, classes, boxes], then how many boxes of a class at most, and
// the two thresholds. The places are rounds of classes of batches, those real in which a box was left.
Status NonMaxSuppression(OpContext& c) {
  Builder& b = c.b;
  if (c.dtype(0) != DType::kF32 || c.dtype(1) != DType::kF32 || c.rank(0) != 3 || c.rank(1) != 3 ||
      c.shape(0)[2] != 4 || c.shape(0)[0] != c.shape(1)[0] || c.shape(0)[1] != c.shape(1)[2]) {
    return Status::Error(Code::kCorrupt, "boxes of shape %s and scores of shape %s", Text(c.shape(0)).c_str(),
                         Text(c.shape(1)).c_str());
  }
  const Shape scores = c.shape(1);
  int64_t most = 0;
  if (c.Has(2)) {
    RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> given, c.ConstantInts(2));
    if (given.size() != 1) return Status::Error(Code::kCorrupt, "the number of boxes is no scalar");
    most = given[0];
  }
  const int64_t bound = c.host.BoundOf(c.proto), wanted = std::min(most, scores[2]);
  const int64_t rounds = bound > 0 ? std::min(bound, wanted) : wanted;
  if (rounds < 1 || scores.elements() == 0) {
    c.Set(0, b.Ints(DType::kI64, {0, 3}, {}));
    return Status::Ok();
  }
  const auto scalar = [&](int i) { return c.Has(i) ? b.Reshape(c.In(i), Shape{}) : kNoNode; };
  const NodeId threshold = c.Has(3) ? scalar(3) : b.Scalar(DType::kF32, 0), least = scalar(4);
  const NodeId none = b.Scalar(DType::kF32, -std::numeric_limits<double>::infinity());
  const NodeId above = b.Binary(TapeOp::kLess, least == kNoNode ? none : least, c.In(1));  // NaN is not
  const NodeId first = b.Select(above, c.In(1), none);
  const Corners all = CornersOf(b, c.In(0), c.Int("center_point_box", 0) != 0);

  ir::LoopMaker maker(&b, rounds);
  // A round that finds no box of any class is the last.
  const NodeId alive = maker.Carried(b.Ints(DType::kBool, Shape{}, {1})), left = maker.Carried(first),
               no = b.Ints(DType::kBool, Shape{}, {0});
  const NodeId which = b.Reduce(ir::ReduceKind::kArgMax, left, {2}, true);
  const Shape each = b.shape(which);
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(each);
  attrs.map.steps[0].strides[0] = scores[2];
  attrs.map.steps[0].strides[1] = attrs.map.steps[0].strides[2] = 0;
  attrs.dims = {{1, scores[2], false}};
  const auto own = [&](NodeId x) { return b.IndexedRead(x, {which}, attrs, each); };
  ir::IndexedAttrs of_scores = attrs;
  of_scores.map.steps[0].strides[0] = scores[1] * scores[2];
  of_scores.map.steps[0].strides[1] = scores[2];
  const NodeId best = b.IndexedRead(left, {which}, of_scores, each);
  const Corners one = {own(all.low_y), own(all.low_x), own(all.high_y), own(all.high_x), own(all.area)};
  const NodeId chosen = b.Binary(TapeOp::kEqual, b.Iota(scores, 2), b.Expand(which, scores));
  const NodeId gone = b.Binary(TapeOp::kBitOr, LieOver(b, all, one, threshold), chosen);
  const NodeId found = b.Binary(TapeOp::kLess, none, best);
  const NodeId any = b.Binary(TapeOp::kLess, none, b.Reduce(ir::ReduceKind::kMax, best, {0, 1, 2}, false));
  std::vector<NodeId> last, rows;
  if (!maker.Finish(
          {b.Select(alive, any, no), b.Select(alive, b.Select(gone, none, left), left)},
          {{b.Select(alive, which, b.Scalar(DType::kI64, 0)), false}, {b.Select(alive, found, no), false}},
          &last, &rows))
    return Status::Error(Code::kUnsupported, "it stands in a loop");

  const int64_t classes = scores[0] * scores[1], places = classes * rounds;
  const auto in_order = [&](NodeId x) {  // from [rounds, batches, classes, 1]
    return b.Reshape(b.Transpose(x, {1, 2, 0, 3}), {places, 1});
  };
  const Shape cube{scores[0], scores[1], rounds};
  NodeId selected = b.Concat(
      {b.Reshape(b.Iota(cube, 0), {places, 1}), b.Reshape(b.Iota(cube, 1), {places, 1}), in_order(rows[0])},
      1);
  auto space = std::make_shared<DataSizedDim>();
  space->source = c.b.sources().empty() ? c.proto.op_type() : c.b.sources()[0];
  space->length = places;
  space->real = b.Reshape(in_order(rows[1]), {places});
  if (rounds < wanted) {
    const NodeId more =
        b.Binary(TapeOp::kLess, none, b.Reduce(ir::ReduceKind::kMax, last[1], {0, 1, 2}, false));
    selected = data_sizes::Checked(b, selected, data_sizes::Count(b, more));
  }
  c.SetValue(0, data_sizes::WithDim(selected, space, 0));
  return Status::Ok();
}

constexpr OpRow kOps[] = {{"NonMaxSuppression", 2, NonMaxSuppression, 10}};

}  // namespace

Span<const OpRow> SuppressionOps() { return kOps; }

}  // namespace rondo::importer
