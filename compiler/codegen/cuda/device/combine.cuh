// What all points combine into one float, by the order of integers that floats have as their bits
// (core/scalar.h: Combined): the same bits in whatever order blocks come. A thread keeps its share as a
// float; those of a block are put together as ordered integers, and one atomic operation takes that to
// memory.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COMBINE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COMBINE_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// The share of a thread without points.
template <bool MAX>
DEV float combined_start() {
  return bits_float(MAX ? 0xff800000u : 0x7f800000u);
}
// NaN if either is.
template <bool MAX>
DEV float combined(float share, float x) {
  if (MAX)
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(share) : "f"(share), "f"(x));
  else
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(share) : "f"(share), "f"(x));
  return share;
}

// Bits of floats as unsigned integers of the same order, and back; NaN as the greatest, or least, of all.
template <bool MAX>
DEV u32 ordered_bits(float x) {
  const u32 bits = (u32)__float_as_int(x);
  if (x != x) return MAX ? 0xffffffffu : 0u;
  return bits ^ ((u32)((int)bits >> 31) | 0x80000000u);
}
DEV u32 bits_of_order(u32 order) { return order ^ ((order >> 31) - 1u | 0x80000000u); }

template <bool MAX>
DEV u32 combine_lanes(u32 order) {
  return MAX ? __reduce_max_sync(0xffffffffu, order) : __reduce_min_sync(0xffffffffu, order);
}
// By all threads, then __syncthreads.
template <bool MAX>
DEV void combine_warp(float share, u32* warps) {
  const u32 order = combine_lanes<MAX>(ordered_bits<MAX>(share));
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x / 32] = order;
}
// An atomic operation on memory that nothing waits for: of atomicAdd and the like, the compiler makes one
// that returns a value where the kernel also reports faults.
#define RED(operation, at, value) \
  asm volatile("red.relaxed.gpu.global." operation " [%0], %1;" ::"l"(at), "r"(value) : "memory")
#define RED_WIDE(operation, at, value) \
  asm volatile("red.relaxed.gpu.global." operation " [%0], %1;" ::"l"(at), "l"(value) : "memory")

// A float that others change as well becomes the greater, or the less, of what it is and the float of `bits`.
// Of floats below 0, greater bits are less numbers.
template <bool MAX>
DEV void meet(char* cell, u32 bits) {
  const bool below = bits >> 31 != 0;
  if (MAX && below) RED("min.u32", cell, bits);
  if (MAX && !below) RED("max.s32", cell, bits);
  if (!MAX && below) RED("max.u32", cell, bits);
  if (!MAX && !below) RED("min.s32", cell, bits);
}
// By one warp.
template <bool MAX, int WARPS>
DEV void combine_block(const u32* warps, char* cell) {
  const u32 lane = threadIdx.x & 31;
  const u32 bits = bits_of_order(combine_lanes<MAX>(warps[lane < WARPS ? lane : 0]));
  if (lane == 0) meet<MAX>(cell, bits);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COMBINE_CUH_
