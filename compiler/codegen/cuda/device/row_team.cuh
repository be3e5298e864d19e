// Reductions of rows that all threads of a cluster share: warps, then blocks, each of which tells every other
// one. In order: team_warp by all threads, __syncthreads, team_expect, team_send by one warp each, team_wait,
// team_take by all. There are two places, which take turns: who has heard from a block in one round knows
// that it has read what was there the round before.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ROW_TEAM_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ROW_TEAM_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/mbarrier.cuh"
#include "compiler/codegen/cuda/device/reductions.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// What warps of a block, and blocks of a cluster, have found, and where, if that is asked for.
struct __align__(16) TeamWarps {
  u64 values[8];
  i64 positions[8];
};
using TeamBlocks = TeamWarps;

template <typename T>
DEV T team_value(const u64& stored) {
  return *(const T*)&stored;
}
// Before anything is sent: of the block's own two barriers.
DEV void team_begin(u64 (&done)[2]) {
  if (threadIdx.x == 0) {
    mbarrier_init(shared_address(&done[0]), 1);
    mbarrier_init(shared_address(&done[1]), 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_barrier();
}
DEV void team_expect(u64 (&done)[2], u32 round, u32 bytes) {
  if (threadIdx.x == 0) mbarrier_expect(shared_address(&done[round & 1]), bytes);
}
DEV void team_wait(u64 (&done)[2], u32 round) {
  mbarrier_wait(shared_address(&done[round & 1]), round >> 1 & 1);
}
template <typename T>
DEV u64 team_bits(T value) {
  u64 bits = 0;
  *(T*)&bits = value;
  return bits;
}

template <typename Op, typename T>
DEV void team_warp(T v, TeamWarps& warps) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) v = Op::of(v, (T)__shfl_xor_sync(0xffffffffu, v, d));
  if ((threadIdx.x & 31) == 0) warps.values[threadIdx.x >> 5] = team_bits(v);
}
template <typename Op, typename T, int BLOCKS>
DEV void team_send(const TeamWarps& warps, TeamBlocks& blocks, u64& done, u32 rank) {
  const u32 to = threadIdx.x & 31;
  T v = team_value<T>(warps.values[0]);
#pragma unroll
  for (int w = 1; w < 8; ++w) v = Op::of(v, team_value<T>(warps.values[w]));
  if (to >= BLOCKS) return;
  store_async(remote_shared(shared_address(&blocks.values[rank]), to), team_bits(v),
              remote_shared(shared_address(&done), to));
}
template <typename Op, typename T, int BLOCKS>
DEV T team_take(const TeamBlocks& blocks) {
  T v = team_value<T>(blocks.values[0]);
#pragma unroll
  for (int b = 1; b < BLOCKS; ++b) v = Op::of(v, team_value<T>(blocks.values[b]));
  return v;
}

// N words of each thread of the block, of each round: a multiple of 4, of which four lie together.
template <int N>
DEV void get_words(const char* rows, u32 round, u32* w) {
#pragma unroll
  for (u32 k = 0; k < N / 4; ++k) {
    const uint4 v = ((const uint4*)rows)[(round * (N / 4) + k) * 256 + threadIdx.x];
    w[4 * k] = v.x;
    w[4 * k + 1] = v.y;
    w[4 * k + 2] = v.z;
    w[4 * k + 3] = v.w;
  }
}
template <int N>
DEV void put_words(char* rows, u32 round, const u32* w) {
#pragma unroll
  for (u32 k = 0; k < N / 4; ++k)
    ((uint4*)rows)[(round * (N / 4) + k) * 256 + threadIdx.x] =
        make_uint4(w[4 * k], w[4 * k + 1], w[4 * k + 2], w[4 * k + 3]);
}

template <bool max, bool last, typename T>
DEV void team_better(T ov, i64 oat, T& v, i64& at) {
  if (!better<max, last>(ov, oat, v, at)) return;
  v = ov;
  at = oat;
}
template <bool max, bool last, typename T>
DEV void team_warp_position(T v, i64 at, TeamWarps& warps) {
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    const T ov = (T)__shfl_xor_sync(0xffffffffu, v, d);
    const i64 oat = __shfl_xor_sync(0xffffffffu, at, d);
    team_better<max, last>(ov, oat, v, at);
  }
  if ((threadIdx.x & 31) != 0) return;
  warps.values[threadIdx.x >> 5] = team_bits(v);
  warps.positions[threadIdx.x >> 5] = at;
}
template <bool max, bool last, int COUNT, typename T>
DEV void team_best(const TeamWarps& found, T& v, i64& at) {
  v = team_value<T>(found.values[0]);
  at = found.positions[0];
#pragma unroll
  for (int k = 1; k < COUNT; ++k)
    team_better<max, last>(team_value<T>(found.values[k]), found.positions[k], v, at);
}
template <bool max, bool last, typename T, int BLOCKS>
DEV void team_send_position(const TeamWarps& warps, TeamBlocks& blocks, u64& done, u32 rank) {
  const u32 to = threadIdx.x & 31;
  T v;
  i64 at;
  team_best<max, last, 8>(warps, v, at);
  if (to >= BLOCKS) return;
  const u32 barrier = remote_shared(shared_address(&done), to);
  store_async(remote_shared(shared_address(&blocks.values[rank]), to), team_bits(v), barrier);
  store_async(remote_shared(shared_address(&blocks.positions[rank]), to), (u64)at, barrier);
}
template <bool max, bool last, typename T, int BLOCKS>
DEV i64 team_take_position(const TeamBlocks& blocks) {
  T v;
  i64 at;
  team_best<max, last, BLOCKS>(blocks, v, at);
  return at;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ROW_TEAM_CUH_
