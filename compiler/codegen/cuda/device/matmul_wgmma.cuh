// Matmuls of 16-bit types by tiles, with wgmma (sm_90a): it reads both sides from shared memory and runs
// while the threads copy.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_

#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/tile_side.cuh"
#include "compiler/codegen/cuda/device/tile_sums.cuh"
#include "compiler/codegen/cuda/device/wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// 128 x N tiles, 64 deep at a time: two groups of four warps, 64 rows each. Copies run STAGES - 2 stages
// ahead, because the products of one stage still run while the next is begun.
template <int N, int STAGES, int RIGHTS, int CLUSTER, int LEFT_VECTOR, bool RIGHT_ALONG, int VECTOR,
          bool BF16, bool EARLY, typename Row, typename LeftDepth, typename Present, typename LeftValue,
          typename Column, typename RightDepth, typename RightValue, typename Finish>
DEV void group_product(u32 row_tile, u32 column_tile, u32 rank, int rows, int columns, int depth,
                       const char* left, const char* const* right, Row row_at, LeftDepth left_depth_at,
                       Present left_present, LeftValue left_value, Column column_at,
                       RightDepth right_depth_at, RightValue right_value, Finish finish) {
  constexpr int M = 128, DEEP = 64, PANELS = RIGHT_ALONG ? 1 : N / 64, AHEAD = STAGES - 2;
  using Left = TileSide<M, DEEP, true, LEFT_VECTOR, BF16>;
  using Right = TileSide<RIGHT_ALONG ? N : 64, DEEP, RIGHT_ALONG, 8, BF16>;
  constexpr int RIGHT_BYTES = N * DEEP * 2, STAGE = Left::BYTES + RIGHTS * RIGHT_BYTES;
  const int row = (int)row_tile * M, column = (int)column_tile * N, group = threadIdx.x >> 7;
  const int all = (depth + DEEP - 1) / DEEP, each = (all + CLUSTER - 1) / CLUSTER;
  const int begin = (int)rank * each, end = begin + each < all ? begin + each : all;
  const u32 base = shared_address(shared_memory), memory = (base + 1023u) & ~1023u;
  float acc[RIGHTS][N / 2];
#pragma unroll
  for (int x = 0; x < RIGHTS * N / 2; ++x) (&acc[0][0])[x] = 0;
  auto copy_left = [&](int step, int stage) {
    if (step >= end) return;
    Left::copy(memory + stage * STAGE, left, row, rows, step * DEEP, depth, row_at, left_depth_at,
               left_present, left_value);
  };
  auto copy_right = [&](int step, int stage) {
    if (step >= end) return;
#pragma unroll
    for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
      for (int p = 0; p < PANELS; ++p)
        Right::copy(
            memory + stage * STAGE + Left::BYTES + j * RIGHT_BYTES + p * Right::BYTES, right[j],
            column + p * 64, columns, step * DEEP, depth, column_at, right_depth_at, [](At) { return true; },
            [&](int c, int k) { return right_value(j, c, k); });
  };
  if (EARLY) {
#pragma unroll
    for (int s = 0; s < AHEAD; ++s) copy_right(begin + s, s);
  }
  wait_for_earlier();
  if constexpr (LEFT_VECTOR < 0)
    Left::template fill<AHEAD>(memory, STAGE, row, rows, begin * DEEP,
                               depth < end * DEEP ? depth : end * DEEP, left_value);
#pragma unroll
  for (int s = 0; s < AHEAD; ++s) {
    if (LEFT_VECTOR >= 0) copy_left(begin + s, s);
    if (!EARLY) copy_right(begin + s, s);
    commit_copies();
  }
  int stage = 0, free = AHEAD % STAGES;
  for (int step = begin; step < end; ++step) {
    wait_copies<AHEAD - 1>();
    show_to_groups();
    __syncthreads();
    const u32 lefts = memory + stage * STAGE + group * 8192, rights = memory + stage * STAGE + Left::BYTES;
    group_begin();
#pragma unroll
    for (int k = 0; k < DEEP / 16; ++k)
#pragma unroll
      for (int j = 0; j < RIGHTS; ++j)
        group_multiply<N, BF16, !RIGHT_ALONG>(
            acc[j], matrix_of(lefts + k * 32, 0),
            matrix_of(rights + j * RIGHT_BYTES + k * (RIGHT_ALONG ? 32 : 2048),
                      RIGHT_ALONG ? 0 : Right::BYTES));
    group_commit();
    copy_left(step + AHEAD, free);
    copy_right(step + AHEAD, free);
    commit_copies();
    group_wait<1>();
    stage = stage + 1 == STAGES ? 0 : stage + 1;
    free = free + 1 == STAGES ? 0 : free + 1;
  }
  group_wait<0>();
  wait_copies<0>();
  __syncthreads();
  constexpr int PITCH = N + 4;
  float* sums = (float*)(shared_memory + (memory - base));
  const int lane = threadIdx.x & 31, first = (threadIdx.x >> 5) * 16 + (lane >> 2);
#pragma unroll
  for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
    for (int x = 0; x < N / 2; x += 2)
      *(float2*)(sums + (j * M + first + (x & 2) * 4) * PITCH + x / 4 * 8 + (lane & 3) * 2) =
          make_float2(acc[j][x], acc[j][x + 1]);
  __syncthreads();
  finish_tile<M, N, RIGHTS, CLUSTER, VECTOR>(sums, rank, row, column, rows, columns, finish);
}
#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_
