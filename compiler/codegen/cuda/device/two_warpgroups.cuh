// What the Multiplys of matmul_tiles by wgmma (sm_90a) have in common: it reads both sides from shared memory
// and runs while the threads copy.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TWO_WARPGROUPS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TWO_WARPGROUPS_CUH_

#include "compiler/codegen/cuda/device/matmul_tiles.cuh"
#include "compiler/codegen/cuda/device/wgmma_tile.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Two warpgroups, 64 rows each of TILE_A. Tile: a warpgroup's accumulators (WgmmaTile, Fp8WgmmaTile).
template <TileMatmul T, TileLayout TILE_LAYOUT, typename TILE_A, typename Tile>
struct TwoWarpgroups {
  static constexpr TileMatmul MATMUL = T;
  static constexpr TileLayout LAYOUT = TILE_LAYOUT;
  static constexpr bool WHOLE = false, RUNS_ON = true;
  static constexpr int STAGE = LAYOUT.stage(), PITCH = AccumulatorsPitch(T.n);
  static_assert(T.m == kWgmmaTileM, "tiles as two warpgroups have them");
  using A = TILE_A;

  u32 memory;
  Tile tile;

  MEMBER explicit TwoWarpgroups(u32 memory) : memory(memory) { tile.zero(); }
  MEMBER void multiply(int stage) {
    const u32 group = threadIdx.x >> 7, at = memory + stage * STAGE;
    tile.multiply(at + group * tile.GROUP_BYTES, at + A::BYTES);
  }
  MEMBER void store(float* accumulators) const {
    const int first = (threadIdx.x >> 5) * 16;
#pragma unroll
    for (int j = 0; j < T.b_count; ++j)
      tile.template store<T.n>(accumulators + (j * T.m + first) * PITCH, PITCH, j, 0);
    __syncthreads();
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TWO_WARPGROUPS_CUH_
