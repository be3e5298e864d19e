// Updates of elements that other points update as well, whose order does not matter: maxima, minima, and sums
// of integers. Results are the same bits in every run.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_

#include "compiler/codegen/cuda/device/combine.cuh"

// Most updates change nothing, and end with the read. A NaN that was there stays.
template <bool MAX>
DEV void update_extreme(char* at, float value) {
  const u32 was = ordered_bits<MAX>(*(const volatile float*)at), order = ordered_bits<MAX>(value);
  if (MAX ? order > was : order < was) meet<MAX>(at, bits_of_order(order));
}
template <bool MAX>
DEV void update_extreme(char* at, i64 value) {
  const i64 was = *(const volatile i64*)at;
  if (MAX && value > was) atomicMax((i64*)at, value);
  if (!MAX && value < was) atomicMin((i64*)at, value);
}
template <bool MAX>
DEV void update_extreme(char* at, int value) {
  const int was = *(const volatile int*)at;
  if (MAX && value > was) atomicMax((int*)at, value);
  if (!MAX && value < was) atomicMin((int*)at, value);
}
DEV void update_sum(char* at, i64 value) { atomicAdd((u64*)at, (u64)value); }
DEV void update_sum(char* at, int value) { atomicAdd((int*)at, value); }

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ORDER_FREE_CUH_
