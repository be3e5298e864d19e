// Matmuls by tiles whose stages the threads of a block copy: a block computes one tile of one batch, M x N,
// or, where the blocks of a cluster split K, its share of it. What multiplies is a policy.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TILES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TILES_CUH_

#include "compiler/codegen/cuda/device/copied_stages.cuh"
#include "compiler/codegen/cuda/device/place.cuh"
#include "compiler/codegen/cuda/device/tile_epilogue.cuh"

// Multiply, besides what run_pipeline wants:
//   LAYOUT: a TileLayout (tile_layout.h)
//   A, B: how a side lies in a stage (operand_tile.cuh, float_operand_tile.cuh)
//   PANELS: a B is so many of `B`, 64 columns each where there are several
//   Multiply(memory): has accumulators of 0; `memory`: shared address of the first stage
//   wait(): until all that was begun is complete
//   store(sums): the accumulators, B after B, in rows of AccumulatorsPitch floats, and a barrier after them
//
// m x n x k: the problem; (tile_m, tile_n): the tile's place; `rank`: the block's in its cluster of CLUSTER.
// An element of a side lies at the sum of what its row (column) and its depth say, lambdas number -> At;
// a_value and b_value make elements where a side is not copied. finish(row, column, sums): the epilogue of
// VECTOR neighbouring points. EARLY: B is constant.
template <typename Multiply, int STAGES, int CLUSTER, int VECTOR, bool EARLY, typename ARow, typename AK,
          typename APresent, typename AValue, typename BColumn, typename BK, typename BValue, typename Finish>
DEV void matmul_tiles(u32 tile_m, u32 tile_n, u32 rank, int m, int n, int k, const char* a,
                      const char* const* b, ARow a_row, AK a_k, APresent a_present, AValue a_value,
                      BColumn b_column, BK b_k, BValue b_value, Finish finish) {
  using A = typename Multiply::A;
  using B = typename Multiply::B;
  constexpr TileLayout LAYOUT = Multiply::LAYOUT;
  constexpr int TILE_M = LAYOUT.m, TILE_N = LAYOUT.n, TILE_K = LAYOUT.k, B_COUNT = LAYOUT.b_count;
  constexpr int STAGE = LAYOUT.stage(), B_BYTES = LAYOUT.b_bytes;
  static_assert(A::BYTES == LAYOUT.a_bytes && Multiply::PANELS * B::BYTES == B_BYTES,
                "sides as the layout has them");
  constexpr int AHEAD = STAGES - (Multiply::RUNS_ON ? 2 : 1);
  const int row = (int)tile_m * TILE_M, column = (int)tile_n * TILE_N;
  const Steps steps = steps_of<TILE_K, CLUSTER>(k, (int)rank);
  const u32 base = shared_address(shared_memory);
  const u32 memory = (base + (u32)(LAYOUT.alignment - 1)) & ~(u32)(LAYOUT.alignment - 1);
  Multiply multiply(memory);
  auto copy_a = [&](int step, int stage) {
    if (step >= steps.end) return;
    A::copy(memory + stage * STAGE, a, row, m, step * TILE_K, k, a_row, a_k, a_present, a_value);
  };
  auto copy_b = [&](int step, int stage) {
    if (step >= steps.end) return;
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
      for (int p = 0; p < Multiply::PANELS; ++p)
        B::copy(
            memory + stage * STAGE + A::BYTES + j * B_BYTES + p * B::BYTES, b[j], column + p * 64, n,
            step * TILE_K, k, b_column, b_k, [](At) { return true; },
            [&](int c, int x) { return b_value(j, c, x); });
  };
  auto make_a = [&] {
    if constexpr (A::MADE_AT_ONCE)
      A::template fill<AHEAD>(memory, STAGE, row, m, steps.begin * TILE_K,
                              k < steps.end * TILE_K ? k : steps.end * TILE_K, a_value);
  };
  CopiedStages<STAGES, AHEAD, Multiply::RUNS_ON, decltype(copy_a), decltype(copy_b)> stages(copy_a, copy_b);
  stages.template start<EARLY, A::MADE_AT_ONCE>(steps.begin, make_a);
  run_pipeline(stages, multiply, steps);
  multiply.wait();
  stages.finish();
  float* sums = (float*)(shared_memory + (memory - base));
  multiply.store(sums);
  tile_epilogue<TILE_M, TILE_N, B_COUNT, CLUSTER, VECTOR>(sums, rank, row, column, m, n, finish);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TILES_CUH_
