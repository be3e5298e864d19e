#include "compiler/ir/rebase.h"

namespace rondo::ir {

bool Rebase(const View& place, IndexedAttrs* attrs) {
  // The access as one map over [elements of the updates..., values of the indices...].
  View all = attrs->map;
  if (!all.affine()) return false;
  ViewStep& step = all.steps[0];
  const Shape updates = step.shape;
  std::vector<int> dims;  // dims of the updates with more than one element, then the indices
  ViewStep compact;
  compact.offset = step.offset;
  for (int d = 0; d < updates.rank; ++d) {
    if (updates[d] == 1) continue;
    if (compact.shape.rank == kMaxRank) return false;
    compact.strides[compact.shape.rank] = step.strides[d];
    compact.shape.dims[compact.shape.rank++] = updates[d];
    dims.push_back(d);
  }
  const int first_index = compact.shape.rank;
  for (const IndexedDim& dim : attrs->dims) {
    if (compact.shape.rank == kMaxRank) return false;
    compact.strides[compact.shape.rank] = dim.stride;
    compact.shape.dims[compact.shape.rank++] = dim.extent;
  }
  View moved = Compose(place, View{{compact}});
  if (!moved.affine()) return false;
  const ViewStep& to = moved.steps[0];
  ViewStep map;
  map.shape = updates;
  map.offset = to.offset;
  for (size_t i = 0; i < dims.size(); ++i) map.strides[dims[i]] = to.strides[i];
  attrs->map = View{{map}};
  for (size_t k = 0; k < attrs->dims.size(); ++k) {
    attrs->dims[k].stride = to.strides[first_index + static_cast<int>(k)];
  }
  return true;
}

}  // namespace rondo::ir
