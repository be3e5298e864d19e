// Sums of matmul_packed_tiles.cuh by wgmma, whose 64 rows are columns of B that a warpgroup unpacks in
// registers, and whose columns are rows of A, which lie in shared memory.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_WGMMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_WGMMA_CUH_

#include "compiler/codegen/cuda/device/packed_tiles_copies.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_unpack.cuh"
#include "compiler/codegen/cuda/device/wgmma_registers.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// What a warp adds up: of its 16 columns all the tile's rows.
template <PackedTiles MATMUL>
struct PackedTilesWgmma {
  static constexpr int M = MATMUL.m, N = MATMUL.n, GROUPS = MATMUL.groups(), THREADS = GROUPS * 128;
  static constexpr int SLICES = MATMUL.half_k() / 16, PITCH = MATMUL.pitch(), LANES = MATMUL.lanes;
  static constexpr bool BY_COLUMN = MATMUL.by_column();
  typedef PackedTilesUnpack<MATMUL> Unpack;

  const PackedTilesBlock<MATMUL>& own;
  const int warp, lane;
  int stage;
  u32 phase;
  float acc[M / 2];
  float scale[2];  // a scale a column
  Unpack unpack;

  MEMBER PackedTilesWgmma(const PackedTilesBlock<MATMUL>& own, int warp)
      : own(own), warp(warp), lane(threadIdx.x & 31), stage(0), phase(0) {}

  MEMBER void begin(const PackedTilesB& b, int n) {
#pragma unroll
    for (int x = 0; x < M / 2; ++x) acc[x] = 0;
    if constexpr (BY_COLUMN) {
      packed_column_scales<MATMUL>(b.scales, n, warp, scale);
      if constexpr (MATMUL.format.zeros) packed_column_scales<MATMUL>(b.zeros, n, warp, unpack.column_zeros);
    }
  }
  // Every warp says when it has read a stage.
  MEMBER void release(int stage) const {
    if (lane == 0) mbarrier_arrive(own.empty + 8 * stage);
  }
  // Begins to multiply half a stage. The half before goes on; of the one before that the fragments are free.
  template <int HALF>
  MEMBER void multiply(u32 (*fragments)[4], int last) {
    const u32 from = own.memory + stage * MATMUL.stage();
    unpack.template load<HALF>(from, warp);
    wgmma_wait<1>();
    if (HALF == 1 && last >= 0) release(last);
    unpack.unpack(fragments);
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
      constexpr int FIRST = HALF * SLICES;
      wgmma_registers<M, MATMUL.format.bf16>(
          acc, fragments[s], wgmma_descriptor(from + (FIRST + s) / 4 * (M * 128) + (FIRST + s) % 4 * 32, 0));
    }
    wgmma_commit();
  }
  // A tile's steps.
  MEMBER void run() {
    u32 fragments[2][SLICES][4];
    int last = -1;
#pragma unroll 1
    for (int step = own.begin; step < own.end; ++step) {
      mbarrier_wait(own.full + 8 * stage, phase);
      multiply<0>(fragments[0], last);
      multiply<1>(fragments[1], last);
      last = stage;
      if (++stage == MATMUL.stages) {
        stage = 0;
        phase ^= 1;
      }
    }
    wgmma_wait<0>();
    if (last >= 0) release(last);
  }
  // Of ROWS rows from `first` on, to memory that has them from row `to` on: [B][rows of all][PITCH].
  template <int ROWS, int ALL>
  MEMBER void store(float* sums, int first) const {
    float* at = sums + warp / (N / 16) * (ALL * PITCH) + warp % (N / 16) * 16 + (lane >> 2);
#pragma unroll
    for (int x = 0; x < ROWS / 2; ++x) {
      const int row = x / 4 * 8 + (lane & 3) * 2 + (x & 1), column = x >> 1 & 1;
      const float sum = acc[first / 2 + x];
      at[row * PITCH + column * 8] = BY_COLUMN ? sum * scale[column] : sum;
    }
  }
  MEMBER static void barrier() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_WGMMA_CUH_
