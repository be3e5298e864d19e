// Blocks of neighbouring elements, transposed in registers.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TRANSPOSED_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TRANSPOSED_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// ROWS rows of COLUMNS elements of BYTES (1, 2 or 4) as words, to COLUMNS rows of ROWS.
template <int BYTES, int ROWS, int COLUMNS>
DEV void transpose_words(const u32 (&from)[ROWS][COLUMNS * BYTES / 4], u32 (&to)[COLUMNS][ROWS * BYTES / 4]) {
  constexpr int EACH = 4 / BYTES;  // elements of a word
  constexpr u32 MASK = BYTES == 4 ? 0xffffffffu : (1u << (BYTES * 8 & 31)) - 1u;
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) {
#pragma unroll
    for (int w = 0; w < ROWS / EACH; ++w) {
      u32 word = 0;
#pragma unroll
      for (int k = 0; k < EACH; ++k)
        word |= (from[w * EACH + k][c / EACH] >> (c % EACH * BYTES * 8) & MASK) << k * BYTES * 8;
      to[c][w] = word;
    }
  }
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TRANSPOSED_CUH_
