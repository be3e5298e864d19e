// Resize along an axis whose size is known only at run time.
#pragma once

#include <optional>
#include <string>

#include "compiler/import/decompose.h"

namespace rondo::importer {

struct ResizedAxis {
  int axis = 0;
  ir::Size from = 1, to = 1;
  std::optional<double> scale;  // as given; none: to / from
};
struct ResizeRule {
  bool linear = false;  // else nearest
  std::string coordinates, nearest;
};

// Resizes one axis of x. Coordinates are computed at run time, in f64. `linear` needs an x of floats.
NodeId ResizeBySizes(Builder& b, NodeId x, const ResizedAxis& axis, const ResizeRule& rule);

}  // namespace rondo::importer
