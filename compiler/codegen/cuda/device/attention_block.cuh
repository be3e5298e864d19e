// What the warps of a block, and the blocks of a cluster, found of the same queries, put together.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_BLOCK_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_BLOCK_CUH_

#include "compiler/codegen/cuda/device/attention_layout.h"
#include "compiler/codegen/cuda/device/attention_scores.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// What a block's warps found, in shared memory: the queries of each of 8 warps, of which `splits` share their
// queries (8 / splits apart), then what the blocks of its cluster send it.
template <AttentionLayout LAYOUT>
struct AttentionBlock {
  static constexpr int ROWS = LAYOUT.warp_rows, VALUES = LAYOUT.values, SPLITS = LAYOUT.splits;
  static constexpr int QUERIES = LAYOUT.queries(), ROW = LAYOUT.row(), MOST = LAYOUT.most(),
                       TOTAL = LAYOUT.total();
  MEMBER float* row(int n) { return (float*)shared_memory + n * ROW; }
  // `Warp::feature(v, quarter, odd)`: the feature of a thread's number `odd` of fragment v; PAIRS: both
  // numbers are neighbours.
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
        if constexpr (Warp::PAIRS) {
          *(float2*)(to + Warp::feature(v, quarter, 0)) =
              make_float2(from.out[v][2 * h], from.out[v][2 * h + 1]);
        } else {
          to[Warp::feature(v, quarter, 0)] = from.out[v][2 * h];
          to[Warp::feature(v, quarter, 1)] = from.out[v][2 * h + 1];
        }
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
      const float scale = quick_exp2(part[MOST] - base);
      sum += part[TOTAL] * scale;
      constexpr int VECTOR = COUNT % 2 == 0 ? 2 : 1;
      float own[COUNT];
#pragma unroll
      for (int c = 0; c < COUNT; c += VECTOR) load_shared<VECTOR>(part + first + c, own + c);
#pragma unroll
      for (int c = 0; c < COUNT; ++c) x[c] += own[c] * scale;
    }
    *most = high;
    *total = sum;
  }
#if __CUDA_ARCH__ >= 900
  // Lets the other blocks of the cluster write to this one's shared memory, once they have all come here.
  static MEMBER void begin() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
  static MEMBER void wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
  // Sends every pair of values of the block, put together, to the block that has it: that of number
  // pair % BLOCKS. Then all have arrived.
  template <int BLOCKS>
  MEMBER void send(u32 rank) {
    constexpr int PIECES = VALUES / 2;
    const u32 inbox = (u32)__cvta_generic_to_shared(shared_memory) + LAYOUT.rows_bytes() +
                      rank * (LAYOUT.own_pairs(BLOCKS) * LAYOUT.kMessage);
    wait();
    for (int pair = threadIdx.x; pair < LAYOUT.pairs(); pair += kBlockThreads) {
      float x[2], most, total;
      gather<2>(pair / PIECES, pair % PIECES * 2, x, &most, &total);
      u32 to;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                   : "=r"(to)
                   : "r"(inbox + pair / BLOCKS * LAYOUT.kMessage), "r"(pair % BLOCKS));
      asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x[0]), "f"(x[1]),
                   "f"(most), "f"(total)
                   : "memory");
    }
    begin();
    wait();
  }
  // A pair of values of a query from the blocks of the cluster.
  template <int BLOCKS>
  MEMBER void gather_cluster(int pair, float* x, float* total) const {
    const float4* const inbox = (const float4*)(shared_memory + LAYOUT.rows_bytes()) + pair / BLOCKS;
    float4 from[BLOCKS];
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) from[r] = inbox[r * LAYOUT.own_pairs(BLOCKS)];
    float high = kNoScore;
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) high = fmaxf(high, from[r].z);
    const float base = high == kNoScore ? 0.0f : high;
    float sum = 0;
    x[0] = x[1] = 0;
#pragma unroll
    for (int r = 0; r < BLOCKS; ++r) {
      const float scale = quick_exp2(from[r].z - base);
      sum += from[r].w * scale;
      x[0] += from[r].x * scale;
      x[1] += from[r].y * scale;
    }
    *total = sum;
  }
#endif
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_BLOCK_CUH_
