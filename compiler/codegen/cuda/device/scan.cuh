// Running sums over the lanes of a warp, all of which must call.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SCAN_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SCAN_CUH_

#include "compiler/codegen/cuda/device/scalar.cuh"

// The sum of this lane's value and those of all lanes before it.
template <typename T>
DEV T sum_of_lanes(T v, u32 lane) {
  for (u32 d = 1; d < 32; d <<= 1) {
    const T before = (T)__shfl_sync(0xffffffffu, v, (int)(lane >= d ? lane - d : lane));
    if (lane >= d) v = op_add(before, v);
  }
  return v;
}

// What the sums of lanes, this one among them, are before this lane's value; 0 in the first.
template <typename T>
DEV T sum_before_lane(T sum, u32 lane) {
  const T before = (T)__shfl_sync(0xffffffffu, sum, (int)(lane > 0 ? lane - 1 : 0));
  return lane > 0 ? before : (T)0;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SCAN_CUH_
