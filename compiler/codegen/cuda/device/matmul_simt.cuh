// Matmuls in f32 by tiles, with FMA.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_SIMT_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_SIMT_CUH_

#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/float_side.cuh"
#include "compiler/codegen/cuda/device/tile_sums.cuh"

// SIZE x SIZE tiles of 16 x 16 threads, 32 deep at a time.
template <int SIZE, int STAGES, int RIGHTS, int CLUSTER, bool LEFT_ALONG, int LEFT_VECTOR, bool RIGHT_ALONG,
          int RIGHT_VECTOR, int VECTOR, bool EARLY, typename Row, typename LeftDepth, typename Present,
          typename LeftValue, typename Column, typename RightDepth, typename RightValue, typename Finish>
DEV void float_product(u32 row_tile, u32 column_tile, u32 rank, int rows, int columns, int depth,
                       const char* left, const char* const* right, Row row_at, LeftDepth left_depth_at,
                       Present left_present, LeftValue left_value, Column column_at,
                       RightDepth right_depth_at, RightValue right_value, Finish finish) {
  constexpr int DEEP = 32, EACH = SIZE / 16;
  using Left = FloatSide<SIZE, DEEP, LEFT_ALONG, LEFT_VECTOR>;
  using Right = FloatSide<SIZE, DEEP, RIGHT_ALONG, RIGHT_VECTOR>;
  constexpr int STAGE = Left::BYTES + RIGHTS * Right::BYTES;
  const int row = (int)row_tile * SIZE, column = (int)column_tile * SIZE, tx = threadIdx.x & 15,
            ty = threadIdx.x >> 4;
  const int all = (depth + DEEP - 1) / DEEP, each = (all + CLUSTER - 1) / CLUSTER;
  const int begin = (int)rank * each, end = begin + each < all ? begin + each : all;
  const u32 memory = shared_address(shared_memory);
  float acc[RIGHTS][EACH][EACH];
#pragma unroll
  for (int x = 0; x < RIGHTS * EACH * EACH; ++x) (&acc[0][0][0])[x] = 0;
  auto copy_left = [&](int step, int stage) {
    if (step < end)
      Left::copy(memory + stage * STAGE, left, row, rows, step * DEEP, depth, row_at, left_depth_at,
                 left_present, left_value);
  };
  auto copy_right = [&](int step, int stage) {
    if (step >= end) return;
#pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
      Right::copy(
          memory + stage * STAGE + Left::BYTES + j * Right::BYTES, right[j], column, columns, step * DEEP,
          depth, column_at, right_depth_at, [](At) { return true; },
          [&](int c, int k) { return right_value(j, c, k); });
  };
  if (EARLY) {
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) copy_right(begin + s, s);
  }
  wait_for_earlier();
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    copy_left(begin + s, s);
    if (!EARLY) copy_right(begin + s, s);
    commit_copies();
  }
  int stage = 0;
  for (int step = begin; step < end; ++step) {
    wait_copies<STAGES - 2>();
    __syncthreads();
    const int ahead = step + STAGES - 1, free = stage == 0 ? STAGES - 1 : stage - 1;
    copy_left(ahead, free);
    copy_right(ahead, free);
    commit_copies();
    const float* lefts = (const float*)(shared_memory + stage * STAGE);
#pragma unroll 2
    for (int k = 0; k < DEEP; k += 4) {
      float a[EACH][4], b[EACH][4];
#pragma unroll
      for (int i = 0; i < EACH; ++i) {
        if (LEFT_ALONG)
          load_shared<4>(lefts + (ty + 16 * i) * Left::PITCH + k, a[i]);
        else
#pragma unroll
          for (int e = 0; e < 4; ++e) a[i][e] = lefts[(k + e) * Left::PITCH + ty * EACH + i];
      }
#pragma unroll
      for (int j = 0; j < RIGHTS; ++j) {
        const float* rights = lefts + (Left::BYTES + j * Right::BYTES) / 4;
        if (RIGHT_ALONG) {
#pragma unroll
          for (int i = 0; i < EACH; ++i) load_shared<4>(rights + (tx + 16 * i) * Right::PITCH + k, b[i]);
        } else {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            float x[EACH];
            load_shared<EACH>(rights + (k + e) * Right::PITCH + tx * EACH, x);
#pragma unroll
            for (int i = 0; i < EACH; ++i) b[i][e] = x[i];
          }
        }
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
          for (int m = 0; m < EACH; ++m)
#pragma unroll
            for (int n = 0; n < EACH; ++n) acc[j][m][n] = __fmaf_rn(a[m][e], b[n][e], acc[j][m][n]);
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  wait_copies<0>();
  __syncthreads();
  float* sums = (float*)shared_memory;
#pragma unroll
  for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
    for (int m = 0; m < EACH; ++m)
#pragma unroll
      for (int n = 0; n < EACH; ++n)
        sums[(j * SIZE + (LEFT_ALONG ? ty + 16 * m : ty * EACH + m)) * (SIZE + 4) +
             (RIGHT_ALONG ? tx + 16 * n : tx * EACH + n)] = acc[j][m][n];
  __syncthreads();
  finish_tile<SIZE, SIZE, RIGHTS, CLUSTER, VECTOR>(sums, rank, row, column, rows, columns, finish);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_SIMT_CUH_
