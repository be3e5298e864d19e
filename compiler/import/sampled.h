// Samples of pictures at places that data decide, as weighted sums of the elements around each place.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::importer {

// One of the elements of an axis that each place reads. All nodes have the shape of the places, or broadcast
// to it.
struct AxisTap {
  ir::NodeId index = ir::kNoNode;   // an integer; in range where `inside`
  ir::NodeId inside = ir::kNoNode;  // bool; none: always
  ir::NodeId weight = ir::kNoNode;  // f32; none: 1
};

// The element at whole place `at` (f32) of an axis of `extent` elements; beyond its ends there is none.
AxisTap TapAt(ir::Builder& b, ir::NodeId at, int64_t extent, DType index, ir::NodeId weight);

// The two elements between which x (f32) lies.
std::vector<AxisTap> LinearTaps(ir::Builder& b, ir::NodeId x, int64_t extent, DType index);

// The sum over all combinations of one tap of each axis, of shape `out` and in the type of `data`: elements
// that are not inside count 0. `first` shows, for each element of `out`, where its picture begins in `data`,
// whose axes have these extents.
ir::NodeId SampledSum(ir::Builder& b, ir::NodeId data, const ir::View& first, const Shape& out,
                      const std::vector<std::vector<AxisTap>>& axes, const std::vector<int64_t>& extents);

}  // namespace rondo::importer
