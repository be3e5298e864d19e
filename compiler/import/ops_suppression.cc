// NonMaxSuppression: each round takes the best box of each class and drops the boxes that overlap it, until
// no box is left.
#include <algorithm>
#include <limits>

#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/ir/loop.h"
#include "formats/onnx/onnx.pb.h"

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

// Whether the intersection of each box with one box per class is more than `threshold` of their union.
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

// The boxes that each class can choose, in any order: their numbers, i64, and scores, -infinity if absent,
// both [batches, classes, number]; and their corners, [batches, 1 or classes, number].
struct Candidates {
  NodeId boxes, scores;
  Corners corners;
};

// The choices, [rounds, batches, classes, 1]: the number of a box, and whether there was one. `more`: whether
// a box is left after the last round, bool [].
struct Chosen {
  NodeId box, found, more;
};

NodeId NoScore(Builder& b) { return b.Scalar(DType::kF32, -std::numeric_limits<double>::infinity()); }

// `x` [batches, 1 or classes, number] at indices `which` [batches, classes, places] of each class.
NodeId OfClasses(Builder& b, NodeId x, NodeId which) {
  const Shape each = b.shape(which);
  const int64_t classes = b.shape(x)[1], number = b.shape(x)[2];
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(each);
  attrs.map.steps[0].strides[0] = classes * number;
  attrs.map.steps[0].strides[1] = classes == 1 ? 0 : number;
  attrs.map.steps[0].strides[2] = 0;
  attrs.dims = {{1, number, false}};
  return b.IndexedRead(x, {which}, attrs, each);
}

Corners OfClasses(Builder& b, const Corners& x, NodeId which) {
  const auto own = [&](NodeId corner) { return OfClasses(b, corner, which); };
  return {own(x.low_y), own(x.low_x), own(x.high_y), own(x.high_x), own(x.area)};
}

// Chooses the best box of each class in each round; of equal scores, the first box. After a round in which no
// class finds a box, nothing is found. `all`: corners by box. False inside another loop.
bool Choose(Builder& b, const Candidates& given, const Corners& all, NodeId threshold, int64_t rounds,
            Chosen* chosen) {
  const NodeId none = NoScore(b), no = b.Ints(DType::kBool, Shape{}, {0});
  const int64_t boxes = b.shape(all.area)[2];
  const NodeId last_box = b.Scalar(DType::kI64, static_cast<double>(boxes - 1));
  struct Best {
    NodeId box, found;
  };
  const auto best_of = [&](NodeId scores) {
    const NodeId best = b.Reduce(ir::ReduceKind::kMax, scores, {2}, true);
    const NodeId own = b.Select(b.Binary(TapeOp::kEqual, scores, best), given.boxes, last_box);
    return Best{b.Reduce(ir::ReduceKind::kMin, own, {2}, true), b.Binary(TapeOp::kLess, none, best)};
  };
  const auto any = [&](NodeId x) { return b.Reduce(ir::ReduceKind::kMax, x, {0, 1, 2}, false); };
  const Best first = best_of(given.scores);
  ir::LoopMaker maker(&b, rounds);
  const NodeId alive = maker.Carried(any(first.found)), left = maker.Carried(given.scores),
               box = maker.Carried(first.box);
  const NodeId gone = b.Binary(TapeOp::kBitOr, LieOver(b, given.corners, OfClasses(b, all, box), threshold),
                               b.Binary(TapeOp::kEqual, given.boxes, box));
  const NodeId rest = b.Select(alive, b.Select(gone, none, left), left);
  const Best best = best_of(rest);
  const NodeId next = b.Select(alive, best.box, b.Scalar(DType::kI64, 0)),
               found = b.Select(alive, best.found, no);
  std::vector<NodeId> last, rows;
  if (!maker.Finish({any(found), rest, next}, {{next, false}, {found, false}}, &last, &rows)) return false;
  const auto all_rounds = [&](NodeId x, NodeId others) {
    return b.Concat({b.Unsqueeze(x, 0), b.Slice(others, 0, 0, 1, rounds - 1)}, 0);
  };
  *chosen = {all_rounds(first.box, rows[0]), all_rounds(first.found, rows[1]), last[0]};
  return true;
}

// The indices of the first `most` true elements of each class in x [batches, classes, number], followed by 0:
// i64 [batches, classes, most]. `count`: the number of true elements, i64 [batches, classes, 1].
NodeId FirstTrue(Builder& b, NodeId x, int64_t most, NodeId* count) {
  const Shape shape = b.shape(x);
  const int64_t rows = shape[0] * shape[1];
  const NodeId end = b.Scalar(DType::kI64, static_cast<double>(most));
  const NodeId before = b.Reshape(CountBefore(b, b.Reshape(x, {rows, shape[2]})), shape);
  const NodeId is_first = b.Binary(TapeOp::kBitAnd, x, b.Binary(TapeOp::kLess, before, end));
  // The other elements go behind the first ones, each to its own place.
  const NodeId place = b.Select(is_first, before, b.Add(b.Iota(shape, 2), end));
  const Shape table{shape[0], shape[1], most + shape[2]};
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(shape);
  attrs.map.steps[0].strides[0] = table[1] * table[2];
  attrs.map.steps[0].strides[1] = table[2];
  attrs.map.steps[0].strides[2] = 0;
  attrs.dims = {{1, table[2], false}};
  attrs.may_collide = false;
  const NodeId nothing = b.Expand(b.Scalar(DType::kI32, 0), table);
  const NodeId numbers = b.IndexedWrite(nothing, b.Cast(b.Iota(shape, 2), DType::kI32), {place}, attrs);
  *count = b.Reduce(ir::ReduceKind::kSum, b.Cast(x, DType::kI64), {2}, true);
  return b.Cast(b.Slice(numbers, 2, 0, 1, most), DType::kI64);
}

// Whether `few` numbers [batches, classes, 1] are all at most `most`: bool [].
NodeId AtMost(Builder& b, NodeId few, int64_t most) {
  return b.Binary(TapeOp::kLess, b.Reduce(ir::ReduceKind::kMax, few, {0, 1, 2}, false),
                  b.Scalar(DType::kI64, static_cast<double>(most + 1)));
}

// The candidates of each class, valid if no class has more than `most`. `fit`: whether that holds, bool [].
Candidates FewOf(Builder& b, const Candidates& all, int64_t most, NodeId* fit) {
  constexpr int64_t kBlock = 16;
  const Shape shape = b.shape(all.scores);
  const NodeId none = NoScore(b);
  // Finds the blocks with a candidate first, since most have none; then the candidates in them. Block i holds
  // boxes i, i + blocks, i + 2 * blocks, and so on.
  const int64_t blocks = (shape[2] + kBlock - 1) / kBlock;
  const NodeId padded = b.PadConstant(all.scores, none, {0, 0, 0}, {0, 0, blocks * kBlock - shape[2]});
  const NodeId greatest =
      b.Reduce(ir::ReduceKind::kMax, b.Reshape(padded, {shape[0], shape[1], kBlock, blocks}), {2}, false);
  NodeId full = kNoNode, count = kNoNode;
  const NodeId used = FirstTrue(b, b.Binary(TapeOp::kLess, none, greatest), most, &full);
  const Shape cube{shape[0], shape[1], most, kBlock}, flat{shape[0], shape[1], most * kBlock};
  const NodeId within = b.BinaryScalar(TapeOp::kMul, b.Iota(cube, 3), static_cast<double>(blocks));
  const NodeId places = b.Reshape(b.Add(within, b.Expand(b.Unsqueeze(used, 3), cube)), flat);
  const NodeId is_used = b.Binary(TapeOp::kLess, b.Iota(cube, 2), b.Expand(b.Unsqueeze(full, 3), cube));
  const NodeId scores = b.Select(b.Reshape(is_used, flat), OfClasses(b, padded, places), none);
  const NodeId chosen = FirstTrue(b, b.Binary(TapeOp::kLess, none, scores), most, &count);
  *fit = b.Binary(TapeOp::kBitAnd, AtMost(b, full, most), AtMost(b, count, most));
  const Shape own{shape[0], shape[1], most};
  const NodeId is_real = b.Binary(TapeOp::kLess, b.Iota(own, 2), b.Expand(count, own));
  const NodeId boxes = b.Select(is_real, OfClasses(b, places, chosen), b.Scalar(DType::kI64, 0));
  return {boxes, b.Select(is_real, OfClasses(b, scores, chosen), none), OfClasses(b, all.corners, boxes)};
}

// The most candidates per class that are collected first, and the fewest boxes for which that is done.
constexpr int64_t kFewCandidates = 64, kManyBoxes = 2048;

// If few scores are above the threshold, their boxes are collected first, so that a round's cost depends on
// their number instead of the number of all boxes.
bool ChooseQuickly(Builder& b, const Candidates& all, NodeId threshold, int64_t rounds, Chosen* chosen) {
  if (!Choose(b, all, all.corners, threshold, rounds, chosen)) return false;
  if (b.shape(all.scores)[2] < kManyBoxes) return true;
  NodeId fit = kNoNode;
  Chosen few;
  const Candidates first = FewOf(b, all, kFewCandidates, &fit);
  if (!Choose(b, first, all.corners, threshold, std::min(rounds, kFewCandidates), &few)) return false;
  const auto either = [&](NodeId of_few, NodeId of_all) {
    const std::vector<int64_t> missing = {b.shape(of_all)[0] - b.shape(of_few)[0], 0, 0, 0};
    return b.Select(fit, b.PadConstant(of_few, b.Scalar(b.dtype(of_few), 0), {0, 0, 0, 0}, missing), of_all);
  };
  *chosen = {either(few.box, chosen->box), either(few.found, chosen->found),
             b.Select(fit, few.more, chosen->more)};
  return true;
}

// boxes [batches, boxes, 4], scores [batches, classes, boxes], the most boxes per class, and the two
// thresholds. Places are rounds of classes of batches; those in which a box was left are real.
Status NonMaxSuppression(OpContext& c) {
  Builder& b = c.b;
  if (c.dtype(0) != DType::kF32 || c.dtype(1) != DType::kF32 || c.rank(0) != 3 || c.rank(1) != 3 ||
      c.shape(0)[2] != 4 || c.shape(0)[0] != c.shape(1)[0] || c.shape(0)[1] != c.shape(1)[2]) {
    return Status::Error(Code::kCorrupt, "boxes of shape %s and scores of shape %s", Text(c.shape(0)).c_str(),
                         Text(c.shape(1)).c_str());
  }
  // Room for the most boxes that a run can have; the scores of padding choose nothing.
  const auto in_room = [&](int i, double padding) {
    ir::Dims dims;
    for (const ir::Size& size : c.SizesOf(i)) dims.emplace_back(size.unknown() ? size.extent() : size.most());
    return data_sizes::InRoom(b, c.In(i), dims, padding);
  };
  const NodeId own_boxes = in_room(0, 0), own_scores = in_room(1, -std::numeric_limits<double>::infinity());
  const Shape scores = b.shape(own_scores);
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
  const NodeId none = NoScore(b);
  const NodeId above = b.Binary(TapeOp::kLess, least == kNoNode ? none : least, own_scores);  // false for NaN
  const Candidates all{b.Iota(scores, 2), b.Select(above, own_scores, none),
                       CornersOf(b, own_boxes, c.Int("center_point_box", 0) != 0)};
  Chosen chosen;
  if (!ChooseQuickly(b, all, threshold, rounds, &chosen))
    return Status::Error(Code::kUnsupported, "it stands in a loop");

  const int64_t classes = scores[0] * scores[1], places = classes * rounds;
  const auto in_order = [&](NodeId x) {  // from [rounds, batches, classes, 1]
    return b.Reshape(b.Transpose(x, {1, 2, 0, 3}), {places, 1});
  };
  const Shape cube{scores[0], scores[1], rounds};
  NodeId selected = b.Concat({b.Reshape(b.Iota(cube, 0), {places, 1}),
                              b.Reshape(b.Iota(cube, 1), {places, 1}), in_order(chosen.box)},
                             1);
  auto space = std::make_shared<DataSizedDim>();
  space->source = c.b.sources().empty() ? c.proto.op_type() : c.b.sources()[0];
  space->length = places;
  space->real = b.Reshape(in_order(chosen.found), {places});
  if (rounds < wanted) selected = data_sizes::Checked(b, selected, data_sizes::Count(b, chosen.more));
  c.SetValue(0, data_sizes::WithDim(selected, space, 0));
  return Status::Ok();
}

constexpr OpRow kOps[] = {{"NonMaxSuppression", 2, NonMaxSuppression, 10}};

}  // namespace

Span<const OpRow> SuppressionOps() { return kOps; }

}  // namespace rondo::importer
