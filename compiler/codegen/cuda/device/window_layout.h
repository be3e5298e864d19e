// What neighbouring outputs of a window share (windows.cuh).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WINDOW_LAYOUT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WINDOW_LAYOUT_H_

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// Elements of a line from the first to the last that `taps` of `points` neighbouring outputs reach.
template <typename Int>
HOST_DEVICE Int WindowSpan(Int points, Int taps, Int stride, Int dilation) {
  return (points - 1) * stride + (taps - 1) * dilation + 1;
}

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WINDOW_LAYOUT_H_
