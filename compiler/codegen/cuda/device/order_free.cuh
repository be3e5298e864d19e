// Updates of elements that other points update as well, whose order does not matter: maxima, minima, and sums
// of integers. Results are the same bits in every run.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_

#include "compiler/codegen/cuda/device/combine.cuh"

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
DEV void update_sum(char* at, i64 value) { RED_WIDE("add.u64", at, value); }
DEV void update_sum(char* at, int value) { RED("add.u32", at, value); }

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_
