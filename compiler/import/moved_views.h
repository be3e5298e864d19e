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

// The least element that a view shows (of affine views and of those whose steps all go forward).
int64_t LeastElement(const ir::View& view);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_MOVED_VIEWS_H_
