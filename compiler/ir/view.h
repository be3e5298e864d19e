// View: maps the elements of a logical tensor to another tensor's dense row-major storage.
//
// Reshape, transpose, slice, broadcast, flip and every composition of them are Views: index maps, never
// copies. A View is a chain of steps. A step maps an index of its `shape` to an element number
//   offset + sum over dims d of strides[d] * index[d]
// of the dense row-major tensor that the step before it describes (step 0: of the storage itself). A chain
// is longer than one step only where a reshape merges dims that do not lie one after another (the merged
// index would need a division); Compose folds steps whenever plain strides can express the result.
// The idea of a chain of strided views is that of tinygrad's ShapeTracker.
//
// Views are plain values. All functions require what their comment says and abort nothing: the builder
// checks user input before calling them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/shape.h"

namespace rondo::ir {

struct ViewStep {
  Shape shape;
  int64_t offset = 0;
  int64_t strides[kMaxRank] = {};

  friend bool operator==(const ViewStep& a, const ViewStep& b);
};

struct View {
  std::vector<ViewStep> steps;  // at least one

  const Shape& shape() const { return steps.back().shape; }
  // One step only: element = offset + strides . index.
  bool affine() const { return steps.size() == 1; }
  friend bool operator==(const View& a, const View& b) { return a.steps == b.steps; }
};

// The view that shows dense storage of this shape as it is.
View DenseView(const Shape& shape);
// True if the view shows storage of exactly `storage` elements in order, each once (only the shape may
// differ).
bool IsDense(const View& view, int64_t storage_elements);

// The same elements under a new shape with as many elements.
View Reshape(const View& view, const Shape& shape);
// Dim d of the result is dim perm[d] of the view.
View Transpose(const View& view, std::span<const int> perm);
// Along `axis`: elements start, start + step, ... (`count` of them); step may be negative.
View Slice(const View& view, int axis, int64_t start, int64_t step, int64_t count);
// Numpy broadcasting to `shape`: dims are aligned at the end, a dim of 1 is repeated.
View Expand(const View& view, const Shape& shape);
// `outer` shows the dense tensor that `inner` describes: the result shows inner's storage.
View Compose(const View& inner, const View& outer);

// The place of a dense tensor of shape `base`, if `view`'s elements of it lie at `place`. No value unless
// `view` shows every element of the tensor exactly once, by plain strides.
std::optional<View> PlaceBehind(const View& view, const Shape& base, const View& place);

// The element of the storage that an index of the view shows.
int64_t Resolve(const View& view, std::span<const int64_t> index);

// ------------------------------------------------------------------------------- loop refinement

// A nest of loops over the dims of a logical tensor, each dim split into factors (outermost first; their
// product is the dim's extent). Splitting loops is what turns a chained View into plain strides.
struct LoopNest {
  std::vector<std::vector<int64_t>> factors;  // per dim

  explicit LoopNest(const Shape& shape);
  LoopNest() = default;
  int loops() const;
  std::vector<int64_t> extents() const;  // all factors, flattened
};

struct AffineMap {
  int64_t offset = 0;
  std::vector<int64_t> strides;  // one a loop, flattened order
};

// Splits loops of `nest` (whose dims are those of view.shape()) as far as `view` needs to become affine.
// False if no split can do it (the view must then be copied to dense storage first).
bool RefineLoops(const View& view, LoopNest* nest);
// The strides of `view` over the loops of `nest`; no value if the nest is not split enough.
std::optional<AffineMap> MapOver(const View& view, const LoopNest& nest);

// --------------------------------------------------------------- the arithmetic under all of the above

// A dim of an index space: its extent, and how far one step moves in the storage, in elements.
struct IndexDim {
  int64_t extent = 1;
  int64_t stride = 0;
};
// The dims of a step, without those of extent 1, and joined where one linear index can walk them.
std::vector<IndexDim> JoinedDims(const ViewStep& step);

// Loops with `extents` move by `strides` from element `offset` on through the dense row-major index space of
// `dims`. Gives the coordinate along every dim: base[j] + sum over loops l of coefficients[l][j] * loop l.
// False if a loop would carry from one dim into another (SplitOf says where to split it).
bool Decompose(std::span<const IndexDim> dims, int64_t offset, std::span<const int64_t> extents,
               std::span<const int64_t> strides, std::vector<int64_t>* base,
               std::vector<std::vector<int64_t>>* coefficients);
// The inner factor by which a loop of `extent` and `stride` must be split so that neither part carries out of
// a dim of `dims`; 0 if no split is needed, or none is possible.
int64_t SplitOf(std::span<const IndexDim> dims, int64_t extent, int64_t stride);

// "offset 5 shape [2, 3] strides [3, 1] | ..." for dumps.
std::string ToString(const View& view);

}  // namespace rondo::ir
