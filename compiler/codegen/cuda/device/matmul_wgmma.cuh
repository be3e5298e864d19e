// Matmuls of 16-bit types by tiles, with wgmma (sm_90a).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_

#include "compiler/codegen/cuda/device/operand_tile.cuh"
#include "compiler/codegen/cuda/device/two_warpgroups.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <TileMatmul T>
struct HalfWarpgroups
    : TwoWarpgroups<T, T.wgmma_layout(), OperandTile<T.m, T.k, true, T.a_vector, T.bf16 != 0>,
                    WgmmaTile<T.n, T.b_count, T.wgmma_layout().b_bytes, 1, T.b_k_major != 0, T.bf16 != 0>> {
  static constexpr bool B_K_MAJOR = T.b_k_major;
  static constexpr int PANELS = B_K_MAJOR ? 1 : T.n / 64;
  static_assert(T.k == kWgmmaTileK && T.a_k_major, "A's lines run along K");
  using B = OperandTile<B_K_MAJOR ? T.n : 64, T.k, B_K_MAJOR, 8, T.bf16 != 0>;

  using HalfWarpgroups::TwoWarpgroups::TwoWarpgroups;
  MEMBER void wait_for_earlier_steps() { wgmma_wait<1>(); }
  MEMBER void wait() { wgmma_wait<0>(); }
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, typename... Arguments>
DEV void matmul_wgmma(Arguments... arguments) {
  matmul_tiles<HalfWarpgroups<MATMUL>>(arguments...);
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_
