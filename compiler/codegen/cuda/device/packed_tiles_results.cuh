// Sums of matmul_packed_tiles.cuh to results: through shared memory, where epilogues find neighbouring
// points.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_RESULTS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_RESULTS_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_copies.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Neighbouring points of what warps that took turns have stored, ROWS rows of each B, added up.
template <PackedTiles MATMUL, int ROWS, int LANES = MATMUL.lanes>
DEV void packed_tiles_sum(const float* at, float* out) {
  load_shared<LANES>(at, out);
#pragma unroll
  for (int turn = 1; turn < MATMUL.turns; ++turn) {
    float x[LANES];
    load_shared<LANES>(at + turn * MATMUL.b_count * ROWS * MATMUL.pitch(), x);
#pragma unroll
    for (int i = 0; i < LANES; ++i) out[i] += x[i];
  }
}

// Sums of one block to results, a piece of rows after another; what the next piece reads besides is asked for
// ahead.
template <PackedTiles MATMUL, typename Sums, typename Fetch, typename Epilogue>
DEV void packed_tiles_store(const Sums& sums, int m, int n, Fetch fetch, Epilogue epilogue) {
  constexpr int PIECE = MATMUL.piece(), LANES = MATMUL.lanes, VECTORS = MATMUL.n / LANES,
                CALLS = (PIECE * VECTORS + Sums::THREADS - 1) / Sums::THREADS, WORDS = MATMUL.words;
  u32 words[2][CALLS][WORDS > 0 ? WORDS : 1];
  float* const memory = sums.own.behind_barriers();
  auto spot = [&](int i, int c, int& row, int& column) -> bool {
    const int p = i * Sums::THREADS + threadIdx.x;
    row = p / VECTORS;
    column = p % VECTORS * LANES;
    return p < PIECE * VECTORS && m + c + row < sums.own.problem.m && n + column < sums.own.problem.n;
  };
  auto fetch_piece = [&](int c) {
#pragma unroll
    for (int i = 0; i < CALLS; ++i) {
      int row, column;
      if (spot(i, c, row, column)) fetch(m + c + row, n + column, words[c / PIECE & 1][i]);
    }
  };
  fetch_piece(0);
#pragma unroll
  for (int c = 0; c < MATMUL.m; c += PIECE) {
    Sums::barrier();
    sums.template store<PIECE, PIECE>(memory, c);
    if (c + PIECE < MATMUL.m) fetch_piece(c + PIECE);
    Sums::barrier();
#pragma unroll
    for (int i = 0; i < CALLS; ++i) {
      int row, column;
      if (!spot(i, c, row, column)) continue;
      float x[MATMUL.b_count * LANES];
#pragma unroll
      for (int j = 0; j < MATMUL.b_count; ++j)
        packed_tiles_sum<MATMUL, PIECE>(memory + (j * PIECE + row) * MATMUL.pitch() + column, x + j * LANES);
      epilogue(m + c + row, n + column, x, words[c / PIECE & 1][i]);
    }
  }
}

// Sums of the blocks of a cluster that split K: each has its share of the rows, and asks for what the
// epilogue reads besides before it waits for the others, if registers hold that. All stages are free: every
// block of a cluster has one tile.
template <PackedTiles MATMUL, typename Sums, typename Fetch, typename Epilogue>
DEV void packed_tiles_join(const Sums& sums, int m, int n, Fetch fetch, Epilogue epilogue) {
  constexpr int M = MATMUL.m, SHARE = M / MATMUL.split_k, LANES = MATMUL.lanes, VECTORS = MATMUL.n / LANES,
                CALLS = (SHARE * VECTORS + Sums::THREADS - 1) / Sums::THREADS, WORDS = MATMUL.words;
  constexpr bool AHEAD = CALLS * WORDS <= 32;
  u32 words[AHEAD ? CALLS : 1][WORDS > 0 ? WORDS : 1];
  float* const memory = (float*)(shared_memory + (sums.own.memory - sums.own.base));
  auto spot = [&](int i, int& row, int& column) -> bool {
    const int p = i * Sums::THREADS + threadIdx.x;
    row = (int)sums.own.rank * SHARE + p / VECTORS;
    column = p % VECTORS * LANES;
    return p < SHARE * VECTORS && m + row < sums.own.problem.m && n + column < sums.own.problem.n;
  };
  Sums::barrier();
  sums.template store<M, M>(memory, 0);
#pragma unroll
  for (int i = 0; AHEAD && i < CALLS; ++i) {
    int row, column;
    if (spot(i, row, column)) fetch(m + row, n + column, words[i]);
  }
  if constexpr (MATMUL.turns > 1) {
    constexpr int POINTS = MATMUL.b_count * M * MATMUL.pitch();
    Sums::barrier();
    for (int p = threadIdx.x * 4; p < POINTS; p += Sums::THREADS * 4) {
      float x[4];
      packed_tiles_sum<MATMUL, M, 4>(memory + p, x);
      *(float4*)(memory + p) = make_float4(x[0], x[1], x[2], x[3]);
    }
  }
  cluster_barrier();
#pragma unroll(AHEAD ? CALLS : 1)
  for (int i = 0; i < CALLS; ++i) {
    int row, column;
    if (!spot(i, row, column)) continue;
    u32* const own = words[AHEAD ? i : 0];
    if constexpr (!AHEAD) fetch(m + row, n + column, own);
    float x[MATMUL.b_count * LANES];
#pragma unroll
    for (int j = 0; j < MATMUL.b_count; ++j)
      sum_blocks<MATMUL.split_k, LANES>(shared_address(memory + (j * M + row) * MATMUL.pitch() + column), 0,
                                        1, x + j * LANES);
    epilogue(m + row, n + column, x, own);
  }
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_RESULTS_CUH_
