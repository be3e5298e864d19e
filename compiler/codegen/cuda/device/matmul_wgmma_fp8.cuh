// Matmuls of FP8 by tiles, with wgmma (sm_90a): it reads both sides from shared memory and runs while the
// threads copy.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_FP8_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_FP8_CUH_

#include "compiler/codegen/cuda/device/byte_operand_tile.cuh"
#include "compiler/codegen/cuda/device/matmul_tiles.cuh"
#include "compiler/codegen/cuda/device/wgmma_fp8.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The Multiply of matmul_tiles by two warpgroups, 64 rows each.
template <TileMatmul T, bool A_E5M2, bool B_E5M2>
struct TwoFp8Warpgroups {
  static constexpr TileMatmul MATMUL = T;
  static constexpr TileLayout LAYOUT = T.wgmma_byte_layout();
  static constexpr bool WHOLE = false, RUNS_ON = true;
  static constexpr int PANELS = 1, STAGE = LAYOUT.stage(), PITCH = AccumulatorsPitch(T.n);
  static_assert(T.m == kWgmmaTileM && T.k == kWgmmaTileBytes, "tiles as two warpgroups have them");
  using A = ByteOperandTile<T.m, T.k, T.a_vector, 0>;
  using B = ByteOperandTile<T.n, T.k, T.b_vector, 0>;

  u32 memory;
  Fp8WgmmaTile<T.n, T.b_count, LAYOUT.b_bytes, A_E5M2, B_E5M2> tile;

  MEMBER explicit TwoFp8Warpgroups(u32 memory) : memory(memory) { tile.zero(); }
  MEMBER void multiply(int stage) {
    const u32 group = threadIdx.x >> 7, at = memory + stage * STAGE;
    tile.multiply(at + group * tile.GROUP_BYTES, at + A::BYTES);
  }
  MEMBER void wait_for_earlier_steps() { tile.add(); }
  MEMBER void wait() {}
  MEMBER void store(float* accumulators) const {
    const int first = (threadIdx.x >> 5) * 16;
#pragma unroll
    for (int j = 0; j < T.b_count; ++j)
      tile.template store<T.n>(accumulators + (j * T.m + first) * PITCH, PITCH, j, 0);
    __syncthreads();
  }
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, bool A_E5M2, bool B_E5M2, typename... Arguments>
DEV void matmul_wgmma_fp8(Arguments... arguments) {
  matmul_tiles<TwoFp8Warpgroups<MATMUL, A_E5M2, B_E5M2>>(arguments...);
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_FP8_CUH_
