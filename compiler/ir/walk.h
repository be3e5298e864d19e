// ForEachElement: visits what a view shows, in row-major order, by counting loops instead of dividing.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/view.h"

namespace rondo::ir {

// The storage elements that a chained view shows, in order, if no split makes it affine.
std::vector<int64_t> ResolveAll(const View& view);

// Calls f(i, element) for every index of the view in row-major order: i counts from 0, `element` is the
// element of the storage that the view shows there.
template <typename F>
void ForEachElement(const View& view, F f) {
  int64_t total = view.shape().elements();
  if (total == 0) return;
  LoopNest nest(view.shape());
  std::optional<AffineMap> map;
  if (RefineLoops(view, &nest)) map = MapOver(view, nest);
  if (!map) {
    std::vector<int64_t> elements = ResolveAll(view);
    for (int64_t i = 0; i < total; ++i) f(i, elements[static_cast<size_t>(i)]);
    return;
  }
  std::vector<int64_t> extents = nest.extents();
  if (extents.empty()) {
    f(int64_t{0}, map->offset);
    return;
  }
  std::vector<int64_t> index(extents.size(), 0);
  const int64_t inner = extents.back(), inner_stride = map->strides.back();
  int64_t row = map->offset;
  for (int64_t i = 0; i < total;) {
    int64_t at = row;
    for (int64_t j = 0; j < inner; ++j, at += inner_stride) f(i++, at);
    for (size_t d = extents.size() - 1; d-- > 0;) {
      row += map->strides[d];
      if (++index[d] < extents[d]) break;
      row -= map->strides[d] * extents[d];
      index[d] = 0;
    }
  }
}

}  // namespace rondo::ir
