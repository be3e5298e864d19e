// Matmuls of 16-bit types by tiles, with wgmma (sm_90a): it reads both sides from shared memory and runs
// while the threads copy.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_

#include "compiler/codegen/cuda/device/matmul_tiles.cuh"
#include "compiler/codegen/cuda/device/operand_tile.cuh"
#include "compiler/codegen/cuda/device/wgmma_tile.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The Multiply of matmul_tiles by two groups of four warps, 64 rows each: tiles of 128 x N, 64 deep. A's
// lines run along K.
template <int N, int COUNT, int A_VECTOR, bool B_ALONG, bool BF16>
struct TwoGroups {
  static constexpr TileLayout LAYOUT = WgmmaLayout(N, COUNT);
  static constexpr int PANELS = B_ALONG ? 1 : N / 64, STAGE = LAYOUT.stage(), B_BYTES = LAYOUT.b_bytes;
  static constexpr bool RUNS_ON = true;
  using A = OperandTile<kWgmmaTileM, kWgmmaTileK, true, A_VECTOR, BF16>;
  using B = OperandTile<B_ALONG ? N : 64, kWgmmaTileK, B_ALONG, 8, BF16>;

  u32 memory;
  WgmmaTile<N, COUNT, B_BYTES, 1, B_ALONG, BF16> tile;

  MEMBER explicit TwoGroups(u32 memory) : memory(memory) { tile.zero(); }
  MEMBER void multiply(int stage) {
    const u32 group = threadIdx.x >> 7, at = memory + stage * STAGE;
    tile.multiply(at + group * tile.GROUP_BYTES, at + A::BYTES);
  }
  MEMBER void wait_for_earlier_steps() { wgmma_wait<1>(); }
  MEMBER void wait() { wgmma_wait<0>(); }
  MEMBER void store(float* sums) const {
    const int first = (threadIdx.x >> 5) * 16;
#pragma unroll
    for (int j = 0; j < COUNT; ++j)
      tile.template store<N>(sums + (j * kWgmmaTileM + first) * AccumulatorsPitch(N), AccumulatorsPitch(N), j,
                             0);
    __syncthreads();
  }
};

// The arguments are those of matmul_tiles.
template <int N, int STAGES, int B_COUNT, int CLUSTER, int A_VECTOR, bool B_ALONG, int VECTOR, bool BF16,
          bool EARLY, typename... Arguments>
DEV void matmul_wgmma(Arguments... arguments) {
  using Multiply = TwoGroups<N, B_COUNT, A_VECTOR, B_ALONG, BF16>;
  matmul_tiles<Multiply, STAGES, CLUSTER, VECTOR, EARLY>(arguments...);
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_WGMMA_CUH_
