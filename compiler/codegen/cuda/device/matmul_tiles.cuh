// Matmuls by tiles whose stages the threads of a block copy: a block computes one tile of one batch, M x N,
// or, where the blocks of a cluster split K, its share of it. What multiplies is a policy.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TILES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TILES_CUH_

#include "compiler/codegen/cuda/device/copied_stages.cuh"
#include "compiler/codegen/cuda/device/place.cuh"
#include "compiler/codegen/cuda/device/tile_epilogue.cuh"

// The fetch of a matmul that has none.
struct NoFetch {};
template <typename Fetch>
constexpr bool IsNoFetch = false;
template <>
constexpr bool IsNoFetch<NoFetch> = true;

// Multiply, besides what run_pipeline wants:
//   MATMUL: a TileMatmul; LAYOUT: its TileLayout
//   A, B: how an operand's tile lies in a stage (operand_tile.cuh, float_operand_tile.cuh)
//   PANELS: a B is so many of `B`, 64 columns each where there are several
//   Multiply(memory): has accumulators of 0; `memory`: shared address of the first stage
//   wait(): until all that was begun is complete
//   WHOLE: its sums are integers, stored as the bits of floats
//   store(accumulators): B after B, in rows of AccumulatorsPitch floats, and a barrier after them
//
// (tile_m, tile_n): the tile's place; `rank`: the block's in its cluster. An element of A lies at the sum of
// what its m and its k say, lambdas number -> At, one of B at what its n and k say; a_value and b_value make
// elements that are not copied. epilogue(m, n, accumulators): of MATMUL.lanes neighbouring points. fetch(n),
// if there is one: called before, of the points' columns, which are the same for a thread in every row.
template <typename Multiply, typename AM, typename AK, typename APresent, typename AValue, typename BN,
          typename BK, typename BValue, typename Epilogue, typename Fetch = NoFetch>
DEV void matmul_tiles(u32 tile_m, u32 tile_n, u32 rank, MatmulExtents problem, const char* a,
                      const char* const* b, AM a_m, AK a_k, APresent a_present, AValue a_value, BN b_n,
                      BK b_k, BValue b_value, Epilogue epilogue, Fetch fetch = {}) {
  using A = typename Multiply::A;
  using B = typename Multiply::B;
  constexpr TileMatmul MATMUL = Multiply::MATMUL;
  constexpr TileLayout LAYOUT = Multiply::LAYOUT;
  constexpr int TILE_K = MATMUL.k, STAGES = MATMUL.stages, STAGE = LAYOUT.stage(), B_BYTES = LAYOUT.b_bytes;
  static_assert(A::BYTES == LAYOUT.a_bytes && Multiply::PANELS * B::BYTES == B_BYTES,
                "tiles of operands as the layout has them");
  constexpr int AHEAD = STAGES - (Multiply::RUNS_ON ? 2 : 1);
  const int m = (int)tile_m * MATMUL.m, n = (int)tile_n * MATMUL.n;
  const Steps steps = steps_of<TILE_K, MATMUL.cluster>(problem.k, (int)rank);
  const u32 base = shared_address(shared_memory);
  const u32 memory = (base + (u32)(LAYOUT.alignment - 1)) & ~(u32)(LAYOUT.alignment - 1);
  Multiply multiply(memory);
  auto copy_a = [&](int step, int stage) {
    if (step >= steps.end) return;
    A::copy(memory + stage * STAGE, a, m, problem.m, step * TILE_K, problem.k, a_m, a_k, a_present, a_value);
  };
  auto copy_b = [&](int step, int stage) {
    if (step >= steps.end) return;
#pragma unroll
    for (int j = 0; j < MATMUL.b_count; ++j)
#pragma unroll
      for (int p = 0; p < Multiply::PANELS; ++p)
        B::copy(
            memory + stage * STAGE + A::BYTES + j * B_BYTES + p * B::BYTES, b[j], n + p * 64, problem.n,
            step * TILE_K, problem.k, b_n, b_k, [](At) { return true; },
            [&](int column, int k) { return b_value(j, column, k); });
  };
  auto make_a = [&] {
    if constexpr (A::MADE_AT_ONCE)
      A::template fill<AHEAD>(memory, STAGE, m, problem.m, steps.begin * TILE_K,
                              problem.k < steps.end * TILE_K ? problem.k : steps.end * TILE_K, a_value);
  };
  CopiedStages<STAGES, AHEAD, Multiply::RUNS_ON, decltype(copy_a), decltype(copy_b)> stages(copy_a, copy_b);
  stages.template start<(MATMUL.b_constant != 0), A::MADE_AT_ONCE>(steps.begin, make_a);
  if constexpr (!IsNoFetch<Fetch>) {
    constexpr int PIECES = MATMUL.n / MATMUL.lanes;
    static_assert(kBlockThreads % PIECES == 0, "a thread has one column of pieces");
    const int column = n + (int)threadIdx.x % PIECES * MATMUL.lanes;
    if (column < problem.n) fetch(column);
  }
  run_pipeline(stages, multiply, steps);
  multiply.wait();
  stages.drain();
  float* accumulators = (float*)(shared_memory + (memory - base));
  multiply.store(accumulators);
  tile_epilogue<MATMUL, Multiply::WHOLE, LAYOUT.copies>(accumulators, rank, m, n, problem, epilogue);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TILES_CUH_
