// Matmuls of 16-bit types by tiles, with mma.sync.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_

#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/tile_side.cuh"
#include "compiler/codegen/cuda/device/tile_sums.cuh"

// C tiles of M x N, DEEP at a time in STAGES stages. The warps of a block are WARPS_M x WARPS_N x WARPS_K;
// the CLUSTER blocks of a cluster split the depth. EARLY: the right side is constant, so that its copies
// begin before the kernels ahead are complete.
template <int M, int N, int DEEP, int WARPS_M, int WARPS_N, int WARPS_K, int STAGES, int RIGHTS, int CLUSTER,
          bool LEFT_ALONG, int LEFT_VECTOR, bool RIGHT_ALONG, int RIGHT_VECTOR, int VECTOR, bool BF16,
          bool EARLY, typename Row, typename LeftDepth, typename Present, typename LeftValue, typename Column,
          typename RightDepth, typename RightValue, typename Finish>
DEV void tile_product(u32 row_tile, u32 column_tile, u32 rank, int rows, int columns, int depth,
                      const char* left, const char* const* right, Row row_at, LeftDepth left_depth_at,
                      Present left_present, LeftValue left_value, Column column_at, RightDepth right_depth_at,
                      RightValue right_value, Finish finish) {
  using Left = TileSide<M, DEEP, LEFT_ALONG, LEFT_VECTOR, BF16>;
  using Right = TileSide<N, DEEP, RIGHT_ALONG, RIGHT_VECTOR, BF16>;
  constexpr int STAGE = Left::BYTES + RIGHTS * Right::BYTES, WM = M / WARPS_M, WN = N / WARPS_N;
  constexpr int TM = WM / 16, TN = WN / 8, SUBSTEPS = DEEP / 16 / WARPS_K;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int wm = warp % WARPS_M, wn = warp / WARPS_M % WARPS_N, wk = warp / (WARPS_M * WARPS_N);
  const int row = (int)row_tile * M, column = (int)column_tile * N;
  const int all = (depth + DEEP - 1) / DEEP, each = (all + CLUSTER - 1) / CLUSTER;
  const int begin = (int)rank * each, end = begin + each < all ? begin + each : all;
  const u32 memory = shared_address(shared_memory);
  float acc[RIGHTS][TM][TN][4];
#pragma unroll
  for (int x = 0; x < RIGHTS * TM * TN * 4; ++x) (&acc[0][0][0][0])[x] = 0;

  auto copy_left = [&](int step, int stage) {
    if (step >= end) return;
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
  if constexpr (LEFT_VECTOR < 0)
    Left::template fill<STAGES - 1>(memory, STAGE, row, rows, begin * DEEP,
                                    depth < end * DEEP ? depth : end * DEEP, left_value);
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (LEFT_VECTOR >= 0) copy_left(begin + s, s);
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
    const u32 lefts = memory + stage * STAGE, rights = lefts + Left::BYTES;
#pragma unroll
    for (int sub = 0; sub < SUBSTEPS; ++sub) {
      const int k = (wk * SUBSTEPS + sub) * 16;
      u32 a[TM][4];
#pragma unroll
      for (int m = 0; m < TM; ++m) {
        const int r = wm * WM + m * 16;
        if (LEFT_ALONG)
          load_matrices(a[m], lefts + swizzled<Left::LINE>(r + (lane & 15), k / 8 + (lane >> 4)));
        else
          load_transposed(
              a[m], lefts + swizzled<Left::LINE>(k + (lane & 7) + (lane >> 4) * 8, r / 8 + (lane >> 3 & 1)));
      }
#pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
        for (int n = 0; n < TN; n += 2) {
          const int c = wn * WN + n * 8;
          u32 b[4];
          if (RIGHT_ALONG)
            load_matrices(
                b, rights + j * Right::BYTES +
                       swizzled<Right::LINE>(c + (lane & 7) + (lane >> 4) * 8, k / 8 + (lane >> 3 & 1)));
          else
            load_transposed(
                b, rights + j * Right::BYTES + swizzled<Right::LINE>(k + (lane & 15), c / 8 + (lane >> 4)));
#pragma unroll
          for (int m = 0; m < TM; ++m) {
            multiply<BF16>(acc[j][m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
            multiply<BF16>(acc[j][m][n + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
          }
        }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  wait_copies<0>();
  __syncthreads();

  constexpr int PITCH = N + 4;
  float* sums = (float*)shared_memory;
#pragma unroll
  for (int w = 0; w < WARPS_K; ++w) {
    if (wk == w) {
#pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
        for (int m = 0; m < TM; ++m)
#pragma unroll
          for (int n = 0; n < TN; ++n)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              float2* to = (float2*)(sums + (j * M + wm * WM + m * 16 + (lane >> 2) + 8 * h) * PITCH +
                                     wn * WN + n * 8 + (lane & 3) * 2);
              float2 v = make_float2(acc[j][m][n][2 * h], acc[j][m][n][2 * h + 1]);
              if (w > 0) {
                const float2 old = *to;
                v.x += old.x;
                v.y += old.y;
              }
              *to = v;
            }
    }
    __syncthreads();
  }
  finish_tile<M, N, RIGHTS, CLUSTER, VECTOR>(sums, rank, row, column, rows, columns, finish);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_
