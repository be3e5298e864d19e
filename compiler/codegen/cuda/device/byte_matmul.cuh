// What bytes are, and what multiplies them: policies of matmuls of 8-bit integers, whose sums are exact in 32
// bits (modulo 2^32), and of FP8, whose sums are f32. A and B as the instruction has them (mma.cuh).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BYTE_MATMUL_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BYTE_MATMUL_CUH_

#include "compiler/codegen/cuda/device/mma.cuh"

template <bool A_SIGNED, bool B_SIGNED>
struct IntegerBytes {
  using Sum = int;
  static constexpr bool WHOLE = true;
  DEV void multiply(int* d, const u32* a, u32 b0, u32 b1) { mma_bytes<A_SIGNED, B_SIGNED>(d, a, b0, b1); }
};
template <bool A_E5M2, bool B_E5M2>
struct Fp8Bytes {
  using Sum = float;
  static constexpr bool WHOLE = false;
  DEV void multiply(float* d, const u32* a, u32 b0, u32 b1) { mma_fp8<A_E5M2, B_E5M2>(d, a, b0, b1); }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BYTE_MATMUL_CUH_
