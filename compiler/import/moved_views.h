// How a view moves when a dimension of what it shows grows.
#ifndef RONDO_COMPILER_IMPORT_MOVED_VIEWS_H_
#define RONDO_COMPILER_IMPORT_MOVED_VIEWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/view.h"

namespace rondo::importer {

// A view and the shape of what it shows.
struct Shown {
  const ir::View& view;
  const Shape& base;
};

// `b` and `c` are `a` of a model whose positions have grown once and twice. How far b's coordinates (of what
// it shows) are ahead of a's: 0 in every dim where both show the same places. None if they are not equally
// far ahead everywhere, or those of c not twice as far. Views of more than some thousand elements are looked
// at in samples that hold both ends of every dim.
std::optional<std::vector<int64_t>> MoveOf(const Shown& a, const Shown& b, const Shown& c);

// `a` where the positions have grown as from `from` to `to` once more: every number of the view by the same.
// None if the views have another form.
std::optional<ir::View> Grown(const ir::View& a, const ir::View& from, const ir::View& to);

// The least and the greatest element that a view shows (of affine views and of those whose steps all go
// forward).
int64_t LeastElement(const ir::View& view);
int64_t GreatestElement(const ir::View& view);

// The dim of an affine view that alone runs along the axis of its base by which the view moves, place by
// place: its elements are `stride` apart, and places [start, start + its length) of `extent`.
struct MovedLine {
  int dim = 0;
  int64_t stride = 0, start = 0, extent = 0;
};
// `ahead` as MoveOf gives it. None if the view moves along several axes, or other dims run along this one,
// too.
std::optional<MovedLine> LineOf(const Shown& shown, const std::vector<int64_t>& ahead);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_MOVED_VIEWS_H_
