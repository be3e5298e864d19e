// Window: what a thread computes of a convolution of few channels a group, or of a pool (windows.cuh), as its
// kernel fixes it.
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// All are ints, as those of TileMatmul.
struct Window {
  int lanes;                     // channels of a thread
  int points;                    // its outputs along the last axis
  int taps;                      // of the last axis, read at a time
  int kernel, stride, dilation;  // along the last axis
  int weight_vector;             // weights of the lanes lie side by side

  // Elements of a line from the first to the last that `taps` of the outputs reach.
  HOST_DEVICE int span() const { return (points - 1) * stride + (taps - 1) * dilation + 1; }
};

}  // namespace rondo::cuda
