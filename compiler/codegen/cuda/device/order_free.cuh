// Updates of elements that other points update as well, whose order does not matter: maxima, minima, and sums
// of integers. Results are the same bits in every run.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_

#include "compiler/codegen/cuda/device/combine.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// The element was `was` a moment ago. Most updates change nothing, and need no more than that. A NaN that was
// there stays.
template <bool MAX>
DEV void update_extreme(char* at, float was, float value) {
  const u32 order = ordered_bits<MAX>(value);
  if (MAX ? order > ordered_bits<MAX>(was) : order < ordered_bits<MAX>(was))
    meet<MAX>(at, bits_of_order(order));
}
template <bool MAX>
DEV void update_extreme(char* at, i64 was, i64 value) {
  if (MAX && value > was) RED_WIDE("max.s64", at, value);
  if (!MAX && value < was) RED_WIDE("min.s64", at, value);
}
template <bool MAX>
DEV void update_extreme(char* at, int was, int value) {
  if (MAX && value > was) RED("max.s32", at, value);
  if (!MAX && value < was) RED("min.s32", at, value);
}
// An update by 0 touches no memory.
DEV void update_sum(char* at, i64 value) {
  if (value != 0) RED_WIDE("add.u64", at, value);
}
DEV void update_sum(char* at, int value) {
  if (value != 0) RED("add.u32", at, value);
}

// What a block's updates of an element come to, in shared memory, before they meet those of other blocks.
DEV void share_sum(u32* share, i64 value) {
  const u32 low = (u32)value;
  u32 high = (u32)((u64)value >> 32);
  if (low != 0) high += atomicAdd(share, low) > 0xffffffffu - low;  // what carries over
  if (high != 0) atomicAdd(share + 1, high);
}
DEV void update_sum(char* at, const u32* share) { update_sum(at, (i64)((u64)share[1] << 32 | share[0])); }
// As ordered bits: 0 without updates.
DEV void share_maximum(u32* share, float value) {
  const u32 order = ordered_bits<true>(value);
  if (order > *(volatile u32*)share) atomicMax(share, order);
}
DEV void update_maximum(char* at, const u32* share) {
  if (*share != 0) update_extreme<true>(at, *(const float*)at, bits_float(bits_of_order(*share)));
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_
