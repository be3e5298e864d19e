#include "compiler/ir/view_axis.h"

namespace rondo::ir {

namespace {

// Follows the axis through one step of a view.
int AxisThroughStep(const ViewStep& step, const Shape& base, int axis) {
  int64_t stride = 1;
  for (int d = base.rank - 1; d > axis; --d) stride *= base[d];
  const int64_t whole = stride * base[axis];
  int found = -1;
  int64_t inside = step.offset % whole;  // how far the step reaches inside one index of the axis
  if (step.offset < 0) return -1;
  for (int d = 0; d < step.shape.rank; ++d) {
    const int64_t by = step.strides[d];
    if (step.shape[d] == 1 || (by >= 0 && by % whole == 0)) continue;
    if (by < 0) return -1;
    if (by == stride && step.shape[d] == base[axis] && found < 0) {
      found = d;
      continue;
    }
    inside += by * (step.shape[d] - 1);
  }
  return inside < stride ? found : -1;
}

}  // namespace

int AxisThrough(const View& view, const Shape& base, int axis) {
  Shape shape = base;
  for (const ViewStep& step : view.steps) {
    axis = AxisThroughStep(step, shape, axis);
    if (axis < 0) return -1;
    shape = step.shape;
  }
  return axis;
}

}  // namespace rondo::ir
