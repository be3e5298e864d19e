// The loop of all matmuls of 1 to 16 rows of A: B is streamed once, by every warp through slots of its own.
// What multiplies is a policy.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_STREAM_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_STREAM_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/few_rows_epilogue.cuh"
#include "compiler/codegen/cuda/device/tile_layout.h"

// Where a block, and a warp of it, is among those that share the work.
template <FewRowsMatmul MATMUL>
struct FewRowsPlace {
  static constexpr int SLICES = MATMUL.warps * MATMUL.cluster;  // of K
  int lane, line, piece;    // a warp copies four lines of eight pieces at a time
  int k_warp, n_warp;       // the warp's place along K and along N
  u32 rank, first, stride;  // the block's in its cluster; its tiles along N: every `stride`-th from `first`
  int slice;                // of K
  MEMBER FewRowsPlace(u32 block, u32 blocks) {
    const int warp = threadIdx.x >> 5;
    lane = threadIdx.x & 31;
    line = lane >> 3;
    piece = lane & 7;
    k_warp = warp % MATMUL.warps;
    n_warp = warp / MATMUL.warps;
    rank = MATMUL.cluster > 1 ? block % MATMUL.cluster : 0;
    first = block / MATMUL.cluster;
    stride = blocks / MATMUL.cluster;
    slice = (int)rank * MATMUL.warps + k_warp;
  }
};

// Multiply, which has FewRowsPlace and the problem:
//   BY_WARP: whether threads read what others of their warp have copied
//   slot(i): shared address of the thread's piece i of a step's 4, in the first stage's first B
//   prepare(a_at): puts the rows of A into shared memory, behind the stages
//   B, read(stage): the thread's elements of a step
//   Accumulators (cleared by `= {}`), multiply(accumulators, b, k): adds the step from k on
//   store(accumulators, partial): into the warp's part of partial[B][warp][row][column]
//
// Each block takes every `blocks / cluster`-th tile of columns, and its copies run on from one tile into the
// next. An element of B lies at the sum of what its column and its k say: b_n(n), b_k(k).
template <typename Multiply, typename BN, typename BK, typename A, typename Fetch, typename Epilogue>
DEV void few_rows_stream(u32 block, u32 blocks, MatmulExtents problem, const char* const* b, BN b_n, BK b_k,
                         A a_at, Fetch fetch, Epilogue epilogue) {
  constexpr FewRowsMatmul MATMUL = Multiply::MATMUL;
  constexpr int WARP_K = MATMUL.warp_k(), TILE_N = MATMUL.tile_n(), STAGES = MATMUL.stages;
  constexpr int B_COUNT = MATMUL.b_count, SLICES = FewRowsPlace<MATMUL>::SLICES;
  constexpr int PIECE = MATMUL.piece(), BYTES = 16 / PIECE, STAGE = MATMUL.stage();
  constexpr bool N_MAJOR = MATMUL.n_major, EARLY = MATMUL.b_constant;
  const FewRowsPlace<MATMUL> place(block, blocks);
  Multiply multiply(place, problem);
  const int steps = (problem.k + WARP_K * SLICES - 1) / (WARP_K * SLICES);
  const u32 tiles = (u32)(problem.n + TILE_N - 1) / TILE_N;
  float* const partial = (float*)(shared_memory + STAGES * MATMUL.stage() + MATMUL.a_bytes(problem.k));

  u32 copy_tile = place.first;
  int copy_step = 0;
  // Where the thread's first piece of the next step goes.
  const u32 first_slot = multiply.slot(0);
  u32 to = first_slot;
  auto copy = [&] {
    if (copy_tile < tiles) {
      const int first_k = (copy_step * SLICES + place.slice) * WARP_K,
                first_n = (int)copy_tile * TILE_N + place.n_warp * MATMUL.warp_n();
      const i64 fixed = N_MAJOR ? b_n(first_n + PIECE * place.piece) : b_k(first_k + PIECE * place.piece);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int l = 4 * i + place.line, k = N_MAJOR ? first_k + l : first_k + PIECE * place.piece,
                  n = N_MAJOR ? first_n + PIECE * place.piece : first_n + l;
        const bool present = k < problem.k && n < problem.n;
        const i64 at = fixed + (N_MAJOR ? b_k(k) : b_n(n));
        const u32 slot = to + (multiply.slot(i) - first_slot);
#pragma unroll
        for (int j = 0; j < B_COUNT; ++j)
          copy_async_16<(MATMUL.streamed != 0)>(slot + j * FewRowsMatmul::kSlot,
                                                present ? b[j] + BYTES * at : b[j], present);
      }
      if (++copy_step == steps) {
        copy_step = 0;
        copy_tile += place.stride;
      }
    }
    to = to == first_slot + (STAGES - 1) * STAGE ? first_slot : to + STAGE;
    commit_copies();
  };
  if (!EARLY) wait_for_earlier();
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) copy();
  if (EARLY) wait_for_earlier();
  multiply.prepare(a_at);
  __syncthreads();

  int stage = 0;
  for (u32 tile = place.first; tile < tiles; tile += place.stride) {
    fetch_first_point<MATMUL>(place.rank, (int)tile * TILE_N, problem.n, fetch);
    typename Multiply::Accumulators accumulators = {};
    for (int step = 0; step < steps; ++step) {
      const int k = (step * SLICES + place.slice) * WARP_K;
      wait_copies<STAGES - 2>();
      if (Multiply::BY_WARP) __syncwarp();
      const typename Multiply::B elements = multiply.read(stage);
      copy();
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      if (k < problem.k) multiply.multiply(accumulators, elements, k);
    }
    multiply.store(accumulators, partial);
    few_rows_epilogue<MATMUL>(partial, place.rank, (int)tile * TILE_N, problem.n, fetch, epilogue);
  }
  wait_copies<0>();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_STREAM_CUH_
