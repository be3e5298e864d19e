// TopK and Unique. Unique compares all pairs of elements: an element's rank is the number of elements that
// come before it, so that needs no data-dependent control flow.
#include <limits>

#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

// The longest row in which all pairs of elements are compared.
constexpr int64_t kMaxCompared = 8192;

// NaN counts as infinity, so that all elements are ordered.
NodeId Ordered(Builder& b, NodeId x) {
  if (!IsFloat(b.dtype(x))) return x;
  const NodeId infinity = b.Scalar(b.dtype(x), std::numeric_limits<double>::infinity());
  return b.Select(b.Unary(TapeOp::kIsNan, x), infinity, x);
}

// For rows x [rows, n]: the number of elements that come before each, [rows, n] i64. Equal elements keep
// their order, so ranks are distinct. They are counted in f32, which is exact below 2^24.
NodeId Ranks(Builder& b, NodeId x, bool largest) {
  int64_t rows = b.shape(x)[0], n = b.shape(x)[1];
  Shape square{rows, n, n};
  NodeId own = b.Expand(b.Unsqueeze(x, 2), square);    // element i
  NodeId other = b.Expand(b.Unsqueeze(x, 1), square);  // element j
  NodeId better = largest ? b.Binary(TapeOp::kLess, own, other) : b.Binary(TapeOp::kLess, other, own);
  const ir::Dims sizes = {rows, b.SizeOf(x, 1), b.SizeOf(x, 1)};
  NodeId earlier = b.Binary(TapeOp::kLess, b.IotaOver(sizes, 2), b.IotaOver(sizes, 1));
  NodeId tied = b.Binary(TapeOp::kBitAnd, b.Binary(TapeOp::kEqual, own, other), earlier);
  NodeId before = b.Cast(b.Binary(TapeOp::kBitOr, better, tied), DType::kF32);
  return b.Cast(b.Reduce(ir::ReduceKind::kSum, before, {2}, false), DType::kI64);
}

// Access to places [rows, k] of each row of tensors [rows, n].
ir::IndexedAttrs InRows(const Shape& places, int64_t n) {
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(places);
  attrs.map.steps[0].strides[0] = n;
  attrs.map.steps[0].strides[1] = 0;
  attrs.dims = {{1, n, false}};
  return attrs;
}

// x [rows, n] at places [rows, k] of each row.
NodeId RowsAt(Builder& b, NodeId x, NodeId places) {
  const Shape shape = b.shape(places);
  return b.IndexedRead(x, {places}, InRows(shape, b.shape(x)[1]), shape, b.SizesOf(places));
}

// `index` [rows, k]; the run ends with a fault if k is greater than n, the number of elements in each row.
NodeId CheckedPlaces(Builder& b, NodeId index, const ir::Size& k, const ir::Size& n) {
  if (k.most() <= n.least() || Min(k, n) == k) return index;
  const NodeId number = b.Number(n);
  const NodeId bad = data_sizes::Count(b, b.Binary(TapeOp::kLess, number, b.Number(k)));
  return b.Binary(TapeOp::kMin, index, data_sizes::Checked(b, number, bad));
}

Status TopK(OpContext& c) {
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", -1), c.rank(0)));
  RONDO_ASSIGN_OR_RETURN(const ir::Dims counts, c.Sizes(1));
  Builder& b = c.b;
  Shape shape = c.shape(0);
  const ir::Size size = c.SizeOf(0, axis), count = counts.size() == 1 ? counts[0] : ir::Size(-1);
  const int64_t n = shape[axis], k = count.known() ? count.extent() : std::min(count.extent(), n);
  if (k < 0 || k > n) {
    return Status::Error(Code::kCorrupt, "the first %lld of %lld elements", static_cast<long long>(k),
                         static_cast<long long>(n));
  }
  if (k == 0) {
    c.Set(0, b.Constant(ir::ConstantData::Own(c.dtype(0), WithDim(shape, axis, 0), {})));
    c.Set(1, b.Constant(ir::ConstantData::Own(DType::kI64, WithDim(shape, axis, 0), {})));
    return Status::Ok();
  }
  bool largest = c.Int("largest", 1) != 0;
  std::vector<int> perm, back(static_cast<size_t>(shape.rank));
  for (int d = 0; d < shape.rank; ++d) {
    if (d != axis) perm.push_back(d);
  }
  perm.push_back(axis);
  for (int d = 0; d < shape.rank; ++d) back[static_cast<size_t>(perm[static_cast<size_t>(d)])] = d;
  NodeId moved = b.Transpose(c.In(0), perm);
  Shape moved_shape = b.shape(moved);
  int64_t rows = shape.elements() / n;
  NodeId x = b.Reshape(moved, {rows, n});
  NodeId index =
      k == 1 && count.known()
          ? b.Reduce(largest ? ir::ReduceKind::kArgMax : ir::ReduceKind::kArgMin, Ordered(b, x), {1}, true)
          : b.TopK(x, k, largest);
  index = CheckedPlaces(b, b.WithSizes(index, {b.SizeOf(x, 0), count}), count, size);
  NodeId values = RowsAt(b, x, index);
  Shape out = WithDim(moved_shape, shape.rank - 1, k);
  c.Set(0, b.Transpose(b.Reshape(values, out), back));
  c.Set(1, b.Transpose(b.Reshape(index, out), back));
  return Status::Ok();
}

// The axes of a tensor with `axis` first.
std::vector<int> AxisFirst(int rank, int axis) {
  std::vector<int> axes = {axis};
  for (int d = 0; d < rank; ++d) {
    if (d != axis) axes.push_back(d);
  }
  return axes;
}

// Which elements are equal in each pair of rows of x [n, width]: bool [n, n, width].
NodeId EqualElements(Builder& b, NodeId x) {
  const Shape shape = b.shape(x), cube{shape[0], shape[0], shape[1]};
  return b.Binary(TapeOp::kEqual, b.Expand(b.Unsqueeze(x, 1), cube), b.Expand(b.Unsqueeze(x, 0), cube));
}

// For rows x [n, width]: the number of rows that come before each, i64 [n]. The first unequal element
// decides; equal rows keep their order.
NodeId RanksOfRows(Builder& b, NodeId x) {
  const int64_t n = b.shape(x)[0], width = b.shape(x)[1];
  if (width == 1) return b.Reshape(Ranks(b, b.Reshape(x, {1, n}), false), {n});
  const NodeId differs = b.Select(EqualElements(b, x), b.Scalar(DType::kI64, 0), b.Scalar(DType::kI64, 1));
  const NodeId first = b.Reduce(ir::ReduceKind::kArgMax, differs, {2}, false);
  const Shape square{n, n};
  const auto at_first = [&](int axis) {  // of the row that this axis counts
    ir::IndexedAttrs attrs;
    attrs.map = ir::DenseView(square);
    attrs.map.steps[0].strides[axis] = width;
    attrs.map.steps[0].strides[1 - axis] = 0;
    attrs.dims = {{1, width, false}};
    return b.IndexedRead(x, {first}, attrs, square);
  };
  const NodeId own = at_first(0), other = at_first(1);
  const NodeId tied = b.Binary(TapeOp::kBitAnd, b.Binary(TapeOp::kEqual, own, other),
                               b.Binary(TapeOp::kLess, b.Iota(square, 1), b.Iota(square, 0)));
  const NodeId before = b.Binary(TapeOp::kBitOr, b.Binary(TapeOp::kLess, other, own), tied);
  return b.Reduce(ir::ReduceKind::kSum, data_sizes::Count(b, before), {1}, false);
}

// The distinct elements, or slices along an axis, in order or sorted; where each first occurs; the index of
// each element among them; and how often each occurs. A NaN equals only itself.
Status Unique(OpContext& c) {
  Builder& b = c.b;
  int axis = 0;
  NodeId moved = b.Reshape(c.In(0), {c.shape(0).elements()});
  if (c.HasAttribute("axis")) {
    RONDO_ASSIGN_OR_RETURN(axis, c.Axis(c.Int("axis", 0), c.rank(0)));
    moved = b.Transpose(c.In(0), AxisFirst(c.rank(0), axis));
  }
  const Shape slices = b.shape(moved);
  const int64_t n = slices[0], width = n == 0 ? 0 : slices.elements() / n;
  if (n < 1 || n > kMaxCompared || width < 1 || n * n > kMaxCompared * kMaxCompared / width) {
    return Status::Error(Code::kUnsupported,
                         "of %lld slices of %lld elements; the limit is %lld times %lld of one",
                         static_cast<long long>(n), static_cast<long long>(width),
                         static_cast<long long>(kMaxCompared), static_cast<long long>(kMaxCompared));
  }
  NodeId x = b.Reshape(moved, {n, width});
  NodeId key = c.dtype(0) == DType::kBool ? b.Cast(x, DType::kI32) : x;
  NodeId order = b.Iota({n}, 0), rank = order;
  if (c.Int("sorted", 1) != 0 && n > 1) {
    rank = RanksOfRows(b, Ordered(b, key));
    ir::IndexedAttrs attrs = InRows({1, n}, n);
    attrs.may_collide = false;
    const NodeId none = b.Expand(b.Scalar(DType::kI64, 0), {1, n});
    order = b.Reshape(b.IndexedWrite(none, b.Iota({1, n}, 1), {b.Reshape(rank, {1, n})}, attrs), {n});
    x = b.Gather(x, order, 0);
    key = b.Gather(key, order, 0);
  }
  const Shape square{n, n};
  const NodeId place = b.Iota(square, 0), other = b.Iota(square, 1);
  const NodeId same = b.Reduce(ir::ReduceKind::kMin, EqualElements(b, key), {2}, false);
  const NodeId equal = b.Binary(TapeOp::kBitOr, b.Binary(TapeOp::kEqual, place, other), same);
  const auto count = [&](NodeId condition) {
    return b.Reduce(ir::ReduceKind::kSum, data_sizes::Count(b, condition), {1}, false);
  };
  const NodeId earlier = count(b.Binary(TapeOp::kBitAnd, equal, b.Binary(TapeOp::kLess, other, place)));
  auto space = std::make_shared<DataSizedDim>();
  space->source = b.sources().empty() ? c.proto.op_type() : b.sources()[0];
  space->length = n;
  space->real = b.Binary(TapeOp::kEqual, earlier, b.Expand(b.Scalar(DType::kI64, 0), {n}));
  const NodeId number =
      b.BinaryScalar(TapeOp::kAdd, CumulativeSum(b, data_sizes::Count(b, space->real), 0, false), -1);
  // An element's number is that of the first equal element. If sorted, it stands at its rank.
  const NodeId first = b.Reduce(ir::ReduceKind::kArgMax, data_sizes::Count(b, equal), {1}, false);
  const NodeId numbers = b.Gather(number, first, 0);
  std::vector<int> back(static_cast<size_t>(slices.rank));
  const std::vector<int> first_axis = AxisFirst(slices.rank, axis);
  for (size_t d = 0; d < back.size(); ++d) back[static_cast<size_t>(first_axis[d])] = static_cast<int>(d);
  c.SetValue(0, data_sizes::WithDim(b.Transpose(b.Reshape(x, slices), back), space, axis));
  c.SetValue(1, data_sizes::WithDim(order, space, 0));
  c.Set(2, b.Gather(numbers, rank, 0));
  c.SetValue(3, data_sizes::WithDim(count(equal), space, 0));
  return Status::Ok();
}

constexpr OpRow kOps[] = {{"TopK", 2, TopK}, {"Unique", 1, Unique, 11}};

}  // namespace

Span<const OpRow> SortingOps() { return kOps; }

}  // namespace rondo::importer
