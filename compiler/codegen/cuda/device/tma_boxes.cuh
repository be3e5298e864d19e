// Results of 16 bits that TMA stores (matmul_tma.cuh): threads compute them where the accumulators are, two
// neighbours at a time, and put them in boxes of shared memory.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_BOXES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_BOXES_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tma.cuh"
#include "compiler/codegen/cuda/device/tma_layout.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Four threads have four words each; thread t gets word t of each of them.
DEV void transpose_words(const u32* from, u32* to) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  u32 w[4];
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const u32 other = __shfl_xor_sync(0xffffffffu, odd ? from[i] : from[i + 1], 1);
    w[i] = odd ? other : from[i];
    w[i + 1] = odd ? from[i + 1] : other;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 other = __shfl_xor_sync(0xffffffffu, high ? w[i] : w[i + 2], 2);
    to[i] = high ? other : w[i];
    to[i + 2] = high ? w[i + 2] : other;
  }
}

// Four 8 x 8 matrices of 16-bit elements, as threads hold accumulators; thread n gives the address of row n.
DEV void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(a), "r"(b),
               "r"(c), "r"(d)
               : "memory");
}

// 16 rows of a warp into one of its boxes, which TMA then stores. `words` are what `fetch` read of this
// piece: call 2 * g + h has eight columns, of 32 from 32 * g on, of the thread's row in half h. `columns` are
// those of the thread's two columns of each eight. Rows beyond the last are computed from what the last one
// reads, and are not stored.
template <TmaMatmul MATMUL, typename Epilogue>
DEV void store_piece(int piece, u32 box, const float* acc, const u32 (*words)[MATMUL.fetched_words()],
                     const u32 (*columns)[MATMUL.column_words()], int m, int n, const TmaExtents& problem,
                     u32 batch, const TensorMap* out, const TensorMap* half_out, TmaRuns runs,
                     const Epilogue& epilogue) {
  constexpr int COLUMNS = MATMUL.narrow(), SETS = MATMUL.words / 4, B_COUNT = MATMUL.b_count;
  const int columns_here = MATMUL.columns(piece);
  const int lane = threadIdx.x & 31, c = piece * COLUMNS;
  if (m >= problem.m) return;
  u32 results[COLUMNS / 8][2];
#pragma unroll
  for (int call = 0; call < COLUMNS / 16; ++call) {
    const bool whole = problem.n % 32 == 0 && MATMUL.n % 32 == 0;  // all of the 32 columns are there, or none
    if (whole && n + c + call / 2 * 32 >= problem.n) continue;
    const int h = call % 2, row = m + h * 8 + lane / 4, r = row < problem.m ? row : problem.m - 1;
    u32 own[4][SETS > 0 ? SETS : 1];
#pragma unroll
    for (int s = 0; s < SETS; ++s) {
      u32 turned[4];
      transpose_words(words[call] + 4 * s, turned);
#pragma unroll
      for (int j = 0; j < 4; ++j) own[j][s] = turned[j];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int eight = call / 2 * 4 + j;
      if (eight * 8 >= columns_here || (!whole && n + c + eight * 8 >= problem.n)) continue;
      float sums[B_COUNT * 2];
#pragma unroll
      for (int b = 0; b < B_COUNT; ++b)
#pragma unroll
        for (int e = 0; e < 2; ++e) sums[b * 2 + e] = acc[(b * MATMUL.n + c) / 2 + eight * 4 + h * 2 + e];
      epilogue(r, n + c + eight * 8 + lane % 4 * 2, sums, own[j], columns[c / 8 + eight], &results[eight][h]);
    }
  }
  if (piece == 0)
    wait_stores_read<0>();
  else if (piece >= MATMUL.boxes())
    wait_stores_read<MATMUL.boxes() - 1>();
  __syncwarp();
#pragma unroll
  for (int e = 0; e < COLUMNS / 8; e += 2)
    if (e * 8 < columns_here) {
      const u32 at = columns_here < COLUMNS ? swizzled<32>(lane & 15, e + (lane >> 4))
                                            : swizzled<COLUMNS * 2>(lane & 15, e + (lane >> 4));
      stmatrix(box + at, results[e][0], results[e][1], results[e + 1][0], results[e + 1][1]);
    }
  fence_proxy_async();
  __syncwarp();
  if (lane == 0 && n + c < problem.n)
    tma_store(box, columns_here < COLUMNS ? half_out : out, (n + c) % runs.n, m % runs.m, (n + c) / runs.n,
              m / runs.m, (int)batch);
  if (lane == 0) commit_stores();
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_BOXES_CUH_
