// WindowShape: the work of a thread for a convolution of few channels a group, or for a pool, as it slides
// along the last spatial axis. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/codegen/cuda/device/window_layout.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

inline constexpr size_t kChannels = 1;  // the loop of groups

struct WindowShape {
  size_t spatial = 0;                            // axes
  int64_t lanes = 1;                             // channels of a thread
  int64_t points = 1;                            // its outputs along the last axis
  int64_t taps = 1;                              // of the last axis, read at once
  bool weight_vector = false;                    // weights of the lanes are contiguous
  int64_t kernel = 1, stride = 1, dilation = 1;  // along the last axis
};

// The same for device code.
inline Window WindowOf(const WindowShape& shape) {
  return {static_cast<int>(shape.lanes),
          static_cast<int>(shape.points),
          static_cast<int>(shape.taps),
          static_cast<int>(shape.kernel),
          static_cast<int>(shape.stride),
          static_cast<int>(shape.dilation),
          shape.weight_vector};
}

// A shape and its estimated cycles.
struct WindowCandidate {
  WindowShape shape;
  double cycles = 0;
};
// All shapes for which a thread has enough registers. Empty if the part does not suit: other types, indices
// from data, or axes that do not move by one stride each.
std::vector<WindowCandidate> WindowCandidates(const PartContext& context);

// Threads of a part.
int64_t WindowUnits(const PartContext& context, const WindowShape& shape);

}  // namespace rondo::cuda
