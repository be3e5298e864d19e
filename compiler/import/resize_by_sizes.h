// Resize along an axis whose size only a run knows.
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

// The axis of x resized: coordinates are computed in the run, in f64. x is of floats if `linear`.
NodeId ResizeBySizes(Builder& b, NodeId x, const ResizedAxis& axis, const ResizeRule& rule);

}  // namespace rondo::importer
