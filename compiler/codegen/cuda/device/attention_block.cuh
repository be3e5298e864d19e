// What the warps of a block, and the blocks of a cluster, found of the same queries, put together.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_BLOCK_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_BLOCK_CUH_

#include "compiler/codegen/cuda/device/attention_layout.h"
#include "compiler/codegen/cuda/device/attention_scores.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// What a block's warps found, in shared memory: the queries of each of 8 warps, of which `splits` share their
// queries (8 / splits apart), then the block's own queries put together.
template <AttentionLayout LAYOUT>
struct AttentionBlock {
  static constexpr int ROWS = LAYOUT.warp_rows, VALUES = LAYOUT.values, SPLITS = LAYOUT.splits;
  static constexpr int QUERIES = LAYOUT.queries(), ROW = LAYOUT.row(), MOST = LAYOUT.most(),
                       TOTAL = LAYOUT.total();
  static constexpr int OWN = LAYOUT.first_own();
  MEMBER float* row(int n) { return (float*)shared_memory + n * ROW; }
  // `Warp::feature(v, quarter, odd)`: the feature of a thread's number `odd` of fragment v.
  template <typename Warp>
  MEMBER void keep(const Warp& from) {
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, quarter = threadIdx.x % 4;
#pragma unroll
    for (int h = 0; h < Warp::ROWS; ++h) {
      const float total = quad_sum(from.total[h]);
      if (group + 8 * h >= ROWS) continue;
      float* to = row(warp * ROWS + group + 8 * h);
      if (quarter == 0) {
        to[MOST] = from.most[h];
        to[TOTAL] = total;
      }
#pragma unroll
      for (int v = 0; v < VALUES / 8; ++v) {
        to[Warp::feature(v, quarter, 0)] = from.out[v][2 * h];
        to[Warp::feature(v, quarter, 1)] = from.out[v][2 * h + 1];
      }
    }
    __syncthreads();
  }
  // COUNT features of a query from the warps that split its keys, relative to the greatest score, into `x`.
  template <int COUNT>
  MEMBER void gather(int query, int first, float* x, float* most, float* total) {
    float high = kNoScore;
#pragma unroll
    for (int s = 0; s < SPLITS; ++s) high = fmaxf(high, row(query + s * QUERIES)[MOST]);
    const float base = high == kNoScore ? 0.0f : high;
    float sum = 0;
#pragma unroll
    for (int c = 0; c < COUNT; ++c) x[c] = 0;
#pragma unroll
    for (int s = 0; s < SPLITS; ++s) {
      const float* part = row(query + s * QUERIES);
      const float scale = attention_exp2(part[MOST] - base);
      sum += part[TOTAL] * scale;
#pragma unroll
      for (int c = 0; c < COUNT; ++c) x[c] += part[first + c] * scale;
    }
    *most = high;
    *total = sum;
  }
  // Leaves every query of the block, put together, for the other blocks of the cluster.
  MEMBER void publish() {
    constexpr int PIECES = VALUES / 2;
    for (int item = threadIdx.x; item < QUERIES * PIECES; item += kBlockThreads) {
      float x[2], most, total;
      gather<2>(item / PIECES, item % PIECES * 2, x, &most, &total);
      float* to = row(OWN + item / PIECES);
      to[item % PIECES * 2] = x[0];
      to[item % PIECES * 2 + 1] = x[1];
      if (item % PIECES == 0) {
        to[MOST] = most;
        to[TOTAL] = total;
      }
    }
  }
#if __CUDA_ARCH__ >= 900
  static MEMBER void meet() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  }
  static MEMBER float read(u32 rank, const float* at) {
    u32 address;
    float x;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(address)
                 : "r"((u32)__cvta_generic_to_shared(at)), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
    return x;
  }
  // The same from all blocks of a cluster of BLOCKS.
  template <int COUNT, int BLOCKS>
  MEMBER void gather_cluster(int query, int first, float* x, float* total) {
    float most[BLOCKS], totals[BLOCKS], high = kNoScore;
    const float* at = row(OWN + query);
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) {
      most[r] = read(r, at + MOST);
      totals[r] = read(r, at + TOTAL);
    }
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) high = fmaxf(high, most[r]);
    const float base = high == kNoScore ? 0.0f : high;
    float sum = 0;
#pragma unroll
    for (int c = 0; c < COUNT; ++c) x[c] = 0;
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) {
      const float scale = attention_exp2(most[r] - base);
      sum += totals[r] * scale;
#pragma unroll
      for (int c = 0; c < COUNT; ++c) x[c] += read(r, at + first + c) * scale;
    }
    *total = sum;
  }
#endif
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_BLOCK_CUH_
