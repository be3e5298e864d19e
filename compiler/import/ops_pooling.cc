// Pools.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/window.h"
#include "core/element.h"

namespace rondo::importer {
namespace {

Result<WindowAttrs> ReadPool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 5));
  return ReadWindow(c, c.Ints("kernel_shape"), c.Int("ceil_mode", 0) != 0);
}

// The pool whose result has exactly the window's extents. A last window added by ceil_mode reaches beyond the
// padding, over absent elements.
ir::PoolAttrs ToPool(const WindowAttrs& w, const Shape& x, Combine kind) {
  ir::PoolAttrs attrs{kind, w.kernel, w.strides, w.dilations, w.pads_begin, w.pads_end};
  for (int i = 0; i < w.rank(); ++i) {
    size_t a = static_cast<size_t>(i);
    int64_t needed = (w.output[a] - 1) * w.strides[a] + w.Reach(i) - x[i + 2] - w.pads_begin[a];
    attrs.pads_end[a] = std::max(attrs.pads_end[a], needed);
  }
  return attrs;
}

// Every window of padded x [n, c, spatial...] in the last dim: [n, c, output..., points of the window].
NodeId Windows(Builder& b, NodeId padded, const WindowAttrs& w) {
  const Shape shape = b.shape(padded);
  ir::ViewStep step;
  int rank = w.rank();
  step.shape.rank = 2 + 2 * rank;
  int64_t stride = 1, points = 1;
  for (int d = shape.rank; d-- > 0; stride *= shape[d]) {
    if (d < 2) {
      step.shape.dims[d] = shape[d];
      step.strides[d] = stride;
      continue;
    }
    size_t a = static_cast<size_t>(d - 2);
    step.shape.dims[d] = w.output[a];
    step.strides[d] = stride * w.strides[a];
    step.shape.dims[d + rank] = w.kernel[a];
    step.strides[d + rank] = stride * w.dilations[a];
    points *= w.kernel[a];
  }
  Shape flat = step.shape;
  flat.rank = 3 + rank;
  flat.dims[2 + rank] = points;
  return b.Reshape(b.ViewNode(padded, ir::View{{step}}), flat);
}

// For every window, the index in x of its largest element.
NodeId MaxPositions(Builder& b, NodeId x, const WindowAttrs& w, bool by_columns) {
  const Shape shape = b.shape(x);
  ir::PoolAttrs pool = ToPool(w, shape, Combine::kMax);
  std::vector<int64_t> before = {0, 0}, after = {0, 0};
  before.insert(before.end(), pool.pads_begin.begin(), pool.pads_begin.end());
  after.insert(after.end(), pool.pads_end.begin(), pool.pads_end.end());
  NodeId padded =
      b.PadConstant(x, b.Scalar(b.dtype(x), -std::numeric_limits<double>::infinity()), before, after);
  int last = 2 + w.rank();
  NodeId point = b.Squeeze(b.Reduce(ir::ReduceKind::kArgMax, Windows(b, padded, w), {last}, true), last);
  const Shape out = b.shape(point);
  NodeId at = kNoNode;
  auto add = [&](NodeId term, int64_t stride) {
    term = b.BinaryScalar(TapeOp::kMul, term, static_cast<double>(stride));
    at = at == kNoNode ? term : b.Add(at, term);
  };
  // The stride of each axis; with by_columns, the first spatial axis is the innermost.
  int64_t strides[kMaxRank], stride = 1;
  for (int i = shape.rank; i-- > 0;) {
    const int d = by_columns && i >= 2 ? shape.rank + 1 - i : i;
    strides[d] = stride;
    stride *= shape[d];
  }
  for (int d = shape.rank; d-- > 0;) {
    stride = strides[d];
    if (d < 2) {
      add(b.Iota(out, d), stride);
      continue;
    }
    size_t a = static_cast<size_t>(d - 2);
    NodeId first = b.BinaryScalar(TapeOp::kMul, b.Iota(out, d), static_cast<double>(w.strides[a]));
    NodeId step = b.BinaryScalar(TapeOp::kMod, point, static_cast<double>(w.kernel[a]));
    point = b.BinaryScalar(TapeOp::kDiv, point, static_cast<double>(w.kernel[a]));
    NodeId within = b.BinaryScalar(TapeOp::kMul, step, static_cast<double>(w.dilations[a]));
    add(b.BinaryScalar(TapeOp::kSub, b.Add(first, within), static_cast<double>(w.pads_begin[a])), stride);
  }
  return at;
}

Status MaxPool(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(WindowAttrs w, ReadPool(c));
  c.Set(0, c.b.Pool(c.In(0), ToPool(w, c.shape(0), Combine::kMax)));
  if (!c.Wants(1)) return Status::Ok();
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  if (2 + 2 * w.rank() > kMaxRank)
    return Status::Error(Code::kUnsupported, "Indices of more than %d dimensions", (kMaxRank - 2) / 2);
  c.Set(1, MaxPositions(c.b, c.In(0), w, c.Int("storage_order", 0) != 0));
  return Status::Ok();
}

// Whether every window lies within the padded input.
bool FitsPadding(const WindowAttrs& w, const Shape& x) {
  for (int i = 0; i < w.rank(); ++i) {
    size_t a = static_cast<size_t>(i);
    int64_t last = (w.output[a] - 1) * w.strides[a] + w.Reach(i);
    if (last > x[i + 2] + w.pads_begin[a] + w.pads_end[a]) return false;
  }
  return true;
}

// Sums and means of 16-bit floats are f32.
NodeId WidePool(Builder& b, NodeId x, const ir::PoolAttrs& attrs) {
  const NodeId y = b.Pool(x, attrs);
  if (!Is16BitFloat(b.dtype(x))) return y;
  if (b.graph().node(y).op != ir::Op::kPool) return b.Pool(Widen(b, x), attrs);  // folded
  b.graph().node(y).dtype = DType::kF32;
  return y;
}

Status AveragePool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_ASSIGN_OR_RETURN(WindowAttrs w, ReadPool(c));
  Builder& b = c.b;
  NodeId x = c.In(0);
  NodeId y = kNoNode;
  if (c.Int("count_include_pad", 0) == 0) {
    y = WidePool(b, x, ToPool(w, c.shape(0), Combine::kMean));
  } else if (FitsPadding(w, c.shape(0))) {
    double taps = 1;
    for (int64_t k : w.kernel) taps *= static_cast<double>(k);
    y = b.BinaryScalar(TapeOp::kDiv, WidePool(b, x, ToPool(w, c.shape(0), Combine::kSum)), taps);
  } else {
    // Padding counts, but elements beyond it do not: pads first.
    std::vector<int64_t> before = {0, 0}, after = {0, 0};
    before.insert(before.end(), w.pads_begin.begin(), w.pads_begin.end());
    after.insert(after.end(), w.pads_end.begin(), w.pads_end.end());
    x = b.PadConstant(x, b.Scalar(b.dtype(x), 0), before, after);
    std::fill(w.pads_begin.begin(), w.pads_begin.end(), 0);
    w.pads_end = w.pads_begin;
    y = WidePool(b, x, ToPool(w, b.shape(x), Combine::kMean));
  }
  return c.Give(b.Cast(y, c.dtype(0)));
}

// |x|^p, and its inverse.
NodeId Power(Builder& b, NodeId x, int64_t p) {
  if (p == 1) return b.Unary(TapeOp::kAbs, x);
  if (p == 2) return b.Mul(x, x);
  return b.BinaryScalar(TapeOp::kPow, b.Unary(TapeOp::kAbs, x), static_cast<double>(p));
}
NodeId Root(Builder& b, NodeId x, int64_t p) {
  if (p == 1) return x;
  if (p == 2) return b.Unary(TapeOp::kSqrt, x);
  return b.BinaryScalar(TapeOp::kPow, x, 1.0 / static_cast<double>(p));
}

// The p of an Lp norm.
Result<int64_t> ReadNorm(const OpContext& c) {
  const int64_t p = c.Int("p", 2);
  if (p < 1) return Status::Error(Code::kCorrupt, "p of %lld", static_cast<long long>(p));
  return p;
}

Status LpPool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_ASSIGN_OR_RETURN(WindowAttrs w, ReadPool(c));
  RONDO_ASSIGN_OR_RETURN(const int64_t p, ReadNorm(c));
  NodeId x = Power(c.b, Widen(c.b, c.In(0)), p);
  NodeId y = Root(c.b, c.b.Pool(x, ToPool(w, c.shape(0), Combine::kSum)), p);
  return c.Give(c.b.Cast(y, c.dtype(0)));
}

Status CheckGlobal(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, kMaxRank));
  if (c.shape(0).elements() == 0) return Status::Error(Code::kCorrupt, "input 0 has no elements");
  return Status::Ok();
}

Status GlobalAveragePool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckGlobal(c));
  return c.Give(c.b.Mean(c.In(0), AxisRange(2, c.rank(0)), true));
}

Status GlobalMaxPool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckGlobal(c));
  return c.Give(c.b.Reduce(ir::ReduceKind::kMax, c.In(0), AxisRange(2, c.rank(0)), true));
}

Status GlobalLpPool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckGlobal(c));
  RONDO_ASSIGN_OR_RETURN(const int64_t p, ReadNorm(c));
  NodeId x = Power(c.b, Widen(c.b, c.In(0)), p);
  NodeId y = Root(c.b, c.b.Reduce(ir::ReduceKind::kSum, x, AxisRange(2, c.rank(0)), true), p);
  return c.Give(c.b.Cast(y, c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"MaxPool", 1, MaxPool},
    {"AveragePool", 1, AveragePool},
    {"LpPool", 1, LpPool},
    {"GlobalAveragePool", 1, GlobalAveragePool},
    {"GlobalMaxPool", 1, GlobalMaxPool},
    {"GlobalLpPool", 1, GlobalLpPool},
};

}  // namespace

Span<const OpRow> PoolingOps() { return kOps; }

}  // namespace rondo::importer
