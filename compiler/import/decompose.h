// Decompositions that several operators share. All require valid arguments, like the Builder.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::importer {

using ir::Builder, ir::NodeId;

inline Shape WithDim(Shape shape, int axis, int64_t extent) {
  shape.dims[axis] = extent;
  return shape;
}

// Converts f16 and bf16 to f32; other types stay. Operators that compute in several steps widen first and
// cast once at the end.
NodeId Widen(ir::Builder& b, NodeId x);

// The greatest or the least value of a type, as a scalar; for floats an infinity.
NodeId ExtremeOf(ir::Builder& b, DType type, bool greatest);

// A vector [n] (or a scalar) as a tensor of `rank` dims with n along `axis`.
NodeId AlongAxis(ir::Builder& b, NodeId vector, int axis, int rank);

// A type for indices into a tensor of this shape: kernels read narrow ones faster.
inline DType IndexType(const Shape& shape) {
  return shape.elements() <= INT32_MAX ? DType::kI32 : DType::kI64;
}

// Elements `index` of x along `axis`, in that order: a view if they are evenly spaced, a concatenation of
// views if they are a few evenly spaced runs, otherwise a gather. Indices must be in range.
NodeId Take(ir::Builder& b, NodeId x, int axis, const std::vector<int64_t>& index);

// `count` elements of x along `axis`: start, start + step, ... Start and count may be sizes that a run
// decides; a place behind the last one is the last.
NodeId SliceOf(ir::Builder& b, NodeId x, int axis, const ir::Size& start, int64_t step,
               const ir::Size& count);

// `parts` along `axis`, each from its begin on, over what the parts before it left there. Begins may be sizes
// that a run decides; each is at most the sum of the extents before it.
NodeId JoinAt(ir::Builder& b, const std::vector<NodeId>& parts, const std::vector<ir::Size>& begins,
              int axis);

// Each element of x along `axis`, `times` times in a row (a view).
NodeId RepeatEach(ir::Builder& b, NodeId x, int axis, int64_t times);
// All of x along `axis`, `times` times over.
NodeId TileAxis(ir::Builder& b, NodeId x, int axis, int64_t times);

// exp(x - max) / sum along `axis`; 16-bit floats compute in f32.
NodeId Softmax(ir::Builder& b, NodeId x, int axis);
NodeId LogSoftmax(ir::Builder& b, NodeId x, int axis);

// (x - mean) * rsqrt(mean((x - mean)^2) + epsilon) over `axes`, in x's own type. `mean` and `inverse` (with
// the reduced dims kept) may be null.
NodeId Standardise(ir::Builder& b, NodeId x, const std::vector<int>& axes, double epsilon,
                   NodeId* mean = nullptr, NodeId* inverse = nullptr);
// x * rsqrt(mean(x * x) + epsilon) over `axes`.
NodeId RmsNormalise(ir::Builder& b, NodeId x, const std::vector<int>& axes, double epsilon,
                    NodeId* inverse = nullptr);

// Activations of x, in x's own type.
NodeId Sigmoid(ir::Builder& b, NodeId x);
NodeId Silu(ir::Builder& b, NodeId x);
NodeId Relu(ir::Builder& b, NodeId x);
NodeId Softplus(ir::Builder& b, NodeId x);
NodeId GeluErf(ir::Builder& b, NodeId x);
NodeId GeluTanh(ir::Builder& b, NodeId x);
// min(max(x, low), high).
NodeId Clamp(ir::Builder& b, NodeId x, double low, double high);

// Running sums along `axis`; if `exclusive`, without the element itself.
NodeId CumulativeSum(ir::Builder& b, NodeId x, int axis, bool exclusive);
// For rows x, bool [rows, n]: how many elements before each are true, i64 [rows, n]. For long rows this is
// faster than a cumulative sum, because matmuls count blocks.
NodeId CountBefore(ir::Builder& b, NodeId x);

// For rows x [rows, n]: which elements are among the k largest of their row (bool). Of equal elements the
// first counts as larger.
NodeId AmongLargest(ir::Builder& b, NodeId x, int64_t k);

// The axes [first, last).
std::vector<int> AxisRange(int first, int last);

// Rotates pairs of features: x [..., 2 * half], cosine and sine broadcast against [..., half]. Pairs are
// (i, i + half), or (2 i, 2 i + 1) if `interleaved`.
NodeId RotatePairs(ir::Builder& b, NodeId x, NodeId cosine, NodeId sine, bool interleaved);

// Whether updates through these indices may hit one element, as far as constants tell. The `index` nodes have
// one shape; `extents` are the lengths of the dims that they index.
bool IndicesMayCollide(const ir::Graph& graph, const std::vector<NodeId>& index,
                       const std::vector<int64_t>& extents);

// A tensor that ends a run with an index out of range, if the builder lets faults count. Branches read it
// instead of an element that does not exist.
NodeId Unreadable(ir::Builder& b, DType dtype, const Shape& shape);

}  // namespace rondo::importer
