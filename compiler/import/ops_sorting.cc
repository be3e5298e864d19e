// TopK. An element's place in the order is the number of elements that come before it, so sorting needs no
// data-dependent control: it costs n^2 comparisons, and rows are bounded accordingly.
#include <limits>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

using ir::Builder;

constexpr int64_t kMaxRow = 8192;

// NaN counts as infinity: so all elements have an order.
NodeId Ordered(Builder& b, NodeId x) {
  if (!IsFloat(b.dtype(x))) return x;
  const NodeId infinity = b.Scalar(b.dtype(x), std::numeric_limits<double>::infinity());
  return b.Select(b.Unary(TapeOp::kIsNan, x), infinity, x);
}

// For rows x [rows, n]: how many elements come before each, [rows, n] i64. Equal ones stay in order: no two
// elements have one place.
NodeId Ranks(Builder& b, NodeId x, bool largest) {
  int64_t rows = b.shape(x)[0], n = b.shape(x)[1];
  Shape square{rows, n, n};
  NodeId own = b.Expand(b.Unsqueeze(x, 2), square);    // element i
  NodeId other = b.Expand(b.Unsqueeze(x, 1), square);  // element j
  NodeId better = largest ? b.Binary(TapeOp::kLess, own, other) : b.Binary(TapeOp::kLess, other, own);
  const ir::Dims plane = {b.SizeOf(x, 1), b.SizeOf(x, 1)};
  NodeId earlier = b.Binary(TapeOp::kLess, b.IotaOver(plane, 1), b.IotaOver(plane, 0));
  NodeId tied = b.Binary(TapeOp::kBitAnd, b.Binary(TapeOp::kEqual, own, other), b.Expand(earlier, square));
  NodeId before = b.Cast(b.Binary(TapeOp::kBitOr, better, tied), DType::kI64);
  return b.Reduce(ir::ReduceKind::kSum, before, {2}, false);
}

Status TopK(OpContext& c) {
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", -1), c.rank(0)));
  RONDO_ASSIGN_OR_RETURN(std::vector<int64_t> counts, c.ConstantInts(1));
  Builder& b = c.b;
  Shape shape = c.shape(0);
  int64_t n = shape[axis];
  int64_t k = counts.size() == 1 ? counts[0] : -1;
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
  if (k > 1 && n > kMaxRow) {
    return Status::Error(Code::kUnsupported, "the first %lld of rows of %lld elements; the limit is %lld",
                         static_cast<long long>(k), static_cast<long long>(n),
                         static_cast<long long>(kMaxRow));
  }
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
  NodeId index = kNoNode;
  if (k == 1) {
    index = b.Reduce(largest ? ir::ReduceKind::kArgMax : ir::ReduceKind::kArgMin, Ordered(b, x), {1}, true);
  } else {
    // The index whose rank is r, for each r below k.
    Shape cube{rows, k, n};
    NodeId rank = b.Expand(b.Unsqueeze(Ranks(b, Ordered(b, x), largest), 1), cube);
    const ir::Dims sizes = {rows, k, b.SizeOf(x, 1)};
    NodeId here = b.Binary(TapeOp::kEqual, rank, b.IotaOver(sizes, 1));
    NodeId place = b.Select(here, b.IotaOver(sizes, 2), b.Scalar(DType::kI64, 0));
    index = b.Reduce(ir::ReduceKind::kSum, place, {2}, false);
  }
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView({rows, k});
  attrs.map.steps[0].strides[0] = n;
  attrs.map.steps[0].strides[1] = 0;
  attrs.dims = {{1, n, false}};
  NodeId values = b.IndexedRead(x, {index}, attrs, {rows, k}, {rows, k});
  Shape out = WithDim(moved_shape, shape.rank - 1, k);
  c.Set(0, b.Transpose(b.Reshape(values, out), back));
  c.Set(1, b.Transpose(b.Reshape(index, out), back));
  return Status::Ok();
}

constexpr OpRow kOps[] = {{"TopK", 2, TopK}};

}  // namespace

Span<const OpRow> SortingOps() { return kOps; }

}  // namespace rondo::importer
