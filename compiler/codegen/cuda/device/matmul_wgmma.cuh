// Matmuls of 16-bit types by tiles, with wgmma (sm_90a): it reads both sides from shared memory and runs
// while the threads copy.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_

#include "compiler/codegen/cuda/device/matmul_tiles.cuh"
#include "compiler/codegen/cuda/device/operand_tile.cuh"
#include "compiler/codegen/cuda/device/wgmma_tile.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The Multiply of matmul_tiles by two warpgroups, 64 rows each. A's lines run along K.
template <TileMatmul T>
struct TwoWarpgroups {
  static constexpr TileMatmul MATMUL = T;
  static constexpr TileLayout LAYOUT = T.wgmma_layout();
  static constexpr bool WHOLE = false;
  static constexpr bool B_K_MAJOR = T.b_k_major, BF16 = T.bf16, RUNS_ON = true;
  static constexpr int PANELS = B_K_MAJOR ? 1 : T.n / 64, STAGE = LAYOUT.stage(),
                       PITCH = AccumulatorsPitch(T.n);
  static_assert(T.m == kWgmmaTileM && T.k == kWgmmaTileK && T.a_k_major, "tiles as two warpgroups have them");
  using A = OperandTile<T.m, T.k, true, T.a_vector, BF16>;
  using B = OperandTile<B_K_MAJOR ? T.n : 64, T.k, B_K_MAJOR, 8, BF16>;

  u32 memory;
  WgmmaTile<T.n, T.b_count, LAYOUT.b_bytes, 1, B_K_MAJOR, BF16> tile;

  MEMBER explicit TwoWarpgroups(u32 memory) : memory(memory) { tile.zero(); }
  MEMBER void multiply(int stage) {
    const u32 group = threadIdx.x >> 7, at = memory + stage * STAGE;
    tile.multiply(at + group * tile.GROUP_BYTES, at + A::BYTES);
  }
  MEMBER void wait_for_earlier_steps() { wgmma_wait<1>(); }
  MEMBER void wait() { wgmma_wait<0>(); }
  MEMBER void store(float* accumulators) const {
    const int first = (threadIdx.x >> 5) * 16;
#pragma unroll
    for (int j = 0; j < T.b_count; ++j)
      tile.template store<T.n>(accumulators + (j * T.m + first) * PITCH, PITCH, j, 0);
    __syncthreads();
  }
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, typename... Arguments>
DEV void matmul_wgmma(Arguments... arguments) {
  matmul_tiles<TwoWarpgroups<MATMUL>>(arguments...);
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_
