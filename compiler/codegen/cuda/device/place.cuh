// Where an element lies: sums of what each loop adds.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PLACE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PLACE_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// An element's number, and the coordinates that decide whether it exists.
struct At {
  i64 a;
  int c0, c1, c2;
};
DEV At operator+(At x, At y) { return {x.a + y.a, x.c0 + y.c0, x.c1 + y.c1, x.c2 + y.c2}; }

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PLACE_CUH_
