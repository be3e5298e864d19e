// Matmuls in f32 by tiles, with FMA.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_SIMT_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_SIMT_CUH_

#include "compiler/codegen/cuda/device/float_operand_tile.cuh"
#include "compiler/codegen/cuda/device/matmul_tiles.cuh"

// The Multiply of matmul_tiles by 16 x 16 threads: square tiles.
template <TileMatmul T>
struct SimtTile {
  static constexpr TileMatmul MATMUL = T;
  static constexpr TileLayout LAYOUT = T.float_layout();
  static constexpr int SIZE = T.m, B_COUNT = T.b_count;
  static constexpr bool A_K_MAJOR = T.a_k_major, B_K_MAJOR = T.b_k_major;
  static_assert(T.m == T.n && T.k == kFloatTileK, "square tiles");
  static constexpr int PANELS = 1, STAGE = LAYOUT.stage(), B_BYTES = LAYOUT.b_bytes;
  static constexpr bool WHOLE = false;
  static constexpr bool RUNS_ON = false;
  using A = FloatOperandTile<SIZE, kFloatTileK, A_K_MAJOR, T.a_vector>;
  using B = FloatOperandTile<SIZE, kFloatTileK, B_K_MAJOR, T.b_vector>;
  static constexpr int EACH = SIZE / 16;  // rows, and columns, of a thread

  int tx, ty;
  float acc[B_COUNT][EACH][EACH];

  MEMBER explicit SimtTile(u32) {
    tx = threadIdx.x & 15;
    ty = threadIdx.x >> 4;
#pragma unroll
    for (int x = 0; x < B_COUNT * EACH * EACH; ++x) (&acc[0][0][0])[x] = 0;
  }

  MEMBER void multiply(int stage) {
    const float* a_tile = (const float*)(shared_memory + stage * STAGE);
#pragma unroll 2
    for (int k = 0; k < kFloatTileK; k += 4) {
      float a[EACH][4], b[EACH][4];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        if (A_K_MAJOR)
          load_shared<4>(a_tile + (ty + 16 * i) * A::PITCH + k, a[i]);
        else
#pragma unroll
          for (int e = 0; e < 4; ++e) a[i][e] = a_tile[(k + e) * A::PITCH + ty * EACH + i];
      }
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j) {
        load_b(b, a_tile + (A::BYTES + j * B_BYTES) / 4, k);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int m = 0; m < EACH; ++m)
#pragma unroll
            for (int n = 0; n < EACH; ++n) acc[j][m][n] = __fmaf_rn(a[m][e], b[n][e], acc[j][m][n]);
      }
    }
  }
  // b[column][e]: this thread's columns at k + e.
  MEMBER void load_b(float (*b)[4], const float* tile, int k) const {
    if (B_K_MAJOR) {
#pragma unroll
      for (int i = 0; i < EACH; ++i) load_shared<4>(tile + (tx + 16 * i) * B::PITCH + k, b[i]);
      return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float x[EACH];
      load_shared<EACH>(tile + (k + e) * B::PITCH + tx * EACH, x);
#pragma unroll
      for (int i = 0; i < EACH; ++i) b[i][e] = x[i];
    }
  }

  MEMBER void wait() {}
  MEMBER void store(float* accumulators) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int m = 0; m < EACH; ++m)
#pragma unroll
        for (int n = 0; n < EACH; ++n)
          accumulators[(j * SIZE + (A_K_MAJOR ? ty + 16 * m : ty * EACH + m)) * AccumulatorsPitch(SIZE) +
                       (B_K_MAJOR ? tx + 16 * n : tx * EACH + n)] = acc[j][m][n];
    __syncthreads();
  }
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, typename... Arguments>
DEV void matmul_simt(Arguments... arguments) {
  matmul_tiles<SimtTile<MATMUL>>(arguments...);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_SIMT_CUH_
