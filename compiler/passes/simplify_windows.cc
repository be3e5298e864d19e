// SimplifyWindows: convolutions that are matmuls become matmuls, and pools with a single window become
// reductions, so that everything known about those applies.
//
// A convolution is a matmul if each of its windows is one pixel (extent, stride and groups 1, no padding), or
// if there is one window, which is the whole input.
#include <algorithm>

#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"
#include "core/element.h"

namespace rondo::passes {

namespace {

bool All(const std::vector<int64_t>& values, int64_t value) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
}

// [n, c, spatial...] as [n, c, points].
Shape Flat(const Shape& shape) {
  int64_t points = 1;
  for (int d = 2; d < shape.rank; ++d) points *= shape[d];
  return Shape{shape[0], shape[1], points};
}

// Whether `kernel`, without padding, covers an input of this shape in one window of adjacent points.
bool CoversAll(const Shape& x, const std::vector<int64_t>& kernel, const std::vector<int64_t>& dilations,
               const std::vector<int64_t>& begin, const std::vector<int64_t>& end) {
  if (!All(begin, 0) || !All(end, 0)) return false;
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] != x[static_cast<int>(i) + 2] || (kernel[i] > 1 && dilations[i] != 1)) return false;
  }
  return true;
}

// x [n, c, points] times w [o, c], as [n, o, points]. Outputs with channels last are computed pixel by pixel,
// others channel by channel, so that the columns of the matmul are contiguous.
NodeId PixelProduct(Builder& b, NodeId x, NodeId w, DType dtype, bool channels_last) {
  const Shape xs = b.shape(x), ws = b.shape(w);
  if (xs[2] > 1 && !(channels_last && Is16BitFloat(b.dtype(x)) && ws[0] % 8 == 0)) {
    const NodeId product = b.MatMul(w, x);
    b.graph().node(product).dtype = dtype;
    return product;
  }
  const NodeId pixels = b.Reshape(b.Transpose(x, {0, 2, 1}), Shape{xs[0] * xs[2], xs[1]});
  const NodeId product = b.MatMul(pixels, b.Transpose(w, {1, 0}));
  b.graph().node(product).dtype = dtype;
  return b.Transpose(b.Reshape(product, Shape{xs[0], xs[2], ws[0]}), {0, 2, 1});
}

// The convolution as a matmul; kNoNode if it is not one.
NodeId AsProduct(Match& m, bool channels_last) {
  const Graph& g = m.graph();
  const Node& node = m.node();
  const ir::ConvAttrs& attrs = node.As<ir::ConvAttrs>();
  const Shape x = g.node(node.inputs[0]).shape, w = g.node(node.inputs[1]).shape, out = node.shape;
  const DType dtype = node.dtype;
  const std::vector<int64_t> kernel(w.begin() + 2, w.end());
  const bool one_window = CoversAll(x, kernel, attrs.dilations, attrs.pads_begin, attrs.pads_end);
  const bool pixels =
      All(kernel, 1) && All(attrs.strides, 1) && All(attrs.pads_begin, 0) && All(attrs.pads_end, 0);
  // Byte tiles read the pixels of a convolution directly.
  if (attrs.groups != 1 || !IsFloat(dtype) || IsFp8(g.node(node.inputs[0]).dtype) || out.elements() == 0 ||
      (!one_window && !pixels))
    return ir::kNoNode;
  Builder b = m.Make();
  const NodeId weight = b.Reshape(node.inputs[1], Shape{w[0], w.elements() / w[0]});
  const Shape rows = one_window ? Shape{x[0], x.elements() / x[0], 1} : Flat(x);
  return b.Reshape(PixelProduct(b, b.Reshape(node.inputs[0], rows), weight, dtype, channels_last), out);
}

// The pool as a reduction; kNoNode if it has several windows.
NodeId AsReduction(Match& m) {
  const Node& node = m.node();
  const ir::PoolAttrs& attrs = node.As<ir::PoolAttrs>();
  const Shape x = m.graph().node(node.inputs[0]).shape, out = node.shape;
  const DType dtype = node.dtype;
  const bool one_window = CoversAll(x, attrs.kernel, attrs.dilations, attrs.pads_begin, attrs.pads_end);
  if (!one_window || !IsFloat(dtype) || out.elements() == 0) return ir::kNoNode;
  const Combine kind = attrs.kind;
  Builder b = m.Make();
  NodeId value = b.Reshape(node.inputs[0], Flat(x));
  // Sums need more than 16 bits.
  const bool widens = Is16BitFloat(b.dtype(value)) && kind != Combine::kMax;
  if (widens) value = b.Cast(value, DType::kF32);
  value = kind == Combine::kMean  ? b.Mean(value, {2}, true)
          : kind == Combine::kMax ? b.Reduce(ir::ReduceKind::kMax, value, {2}, true)
                                  : b.Reduce(ir::ReduceKind::kSum, value, {2}, true);
  if (widens) value = b.Cast(value, dtype);
  return b.Reshape(value, out);
}

}  // namespace

Result<PassResult> SimplifyWindows(ir::Graph* graph, const PassOptions& options) {
  std::vector<Rewrite> rewrites = {{Op::kPool, AsReduction}};
  // A driver that reorders inputs of convolutions computes them as fast as matmuls.
  if (!options.target.convolutions_reorder)
    rewrites.push_back({Op::kConv, [&](Match& m) { return AsProduct(m, options.target.tensor_cores); }});
  std::vector<int64_t> counts = ApplyOnce(graph, rewrites);
  counts.resize(2, 0);
  PassResult result;
  result.changes = Total(counts);
  result.text =
      Count(counts[1], "convolution") + " as products, " + Count(counts[0], "pool") + " as reductions";
  return result;
}

}  // namespace rondo::passes
