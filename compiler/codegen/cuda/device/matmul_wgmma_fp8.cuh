// Matmuls of FP8 by tiles, with wgmma (sm_90a).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_FP8_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_FP8_CUH_

#include "compiler/codegen/cuda/device/byte_operand_tile.cuh"
#include "compiler/codegen/cuda/device/two_warpgroups.cuh"
#include "compiler/codegen/cuda/device/wgmma_fp8.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <TileMatmul T, bool A_E5M2, bool B_E5M2>
struct Fp8Warpgroups
    : TwoWarpgroups<T, T.wgmma_byte_layout(), ByteOperandTile<T.m, T.k, T.a_vector, 0>,
                    Fp8WgmmaTile<T.n, T.b_count, T.wgmma_byte_layout().b_bytes, A_E5M2, B_E5M2>> {
  static constexpr int PANELS = 1;
  static_assert(T.k == kWgmmaTileBytes, "lines of 128 bytes");
  using B = ByteOperandTile<T.n, T.k, T.b_vector, 0>;

  using Fp8Warpgroups::TwoWarpgroups::TwoWarpgroups;
  MEMBER void wait_for_earlier_steps() { this->tile.add(); }
  MEMBER void wait() {}
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, bool A_E5M2, bool B_E5M2, typename... Arguments>
DEV void matmul_wgmma_fp8(Arguments... arguments) {
  matmul_tiles<Fp8Warpgroups<MATMUL, A_E5M2, B_E5M2>>(arguments...);
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_FP8_CUH_
