// How a matmul whose tiles TMA brings is cut: tiles and the blocks of a cluster.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_TILES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_TILES_CUH_

#include "compiler/codegen/cuda/device/tma_layout.h"

// A TmaLayout (tma_layout.h) as constants.
template <int M, int N, int STAGES_, int COUNT, int DOWN_, int ACROSS_, int SPLIT_, bool B_ALONG_>
struct TmaTiles {
  static constexpr TmaLayout LAYOUT = {M, N, COUNT, DOWN_, ACROSS_, SPLIT_, B_ALONG_};
  static constexpr int TILE_M = M, TILE_N = N, TILE_K = kTmaTileK, STAGES = STAGES_, B_COUNT = COUNT;
  static constexpr int DOWN = DOWN_, ACROSS = ACROSS_, SPLIT = SPLIT_, CLUSTER = LAYOUT.cluster();
  static constexpr int GROUPS = LAYOUT.groups(), PEERS = LAYOUT.peers();
  static constexpr bool B_ALONG = B_ALONG_;
  static constexpr int AT_ONCE = LAYOUT.at_once(), PANELS = LAYOUT.panels();
  static constexpr int A_SHARE = LAYOUT.a_share(), B_SHARE = LAYOUT.b_share();
  static constexpr int A_BYTES = LAYOUT.a_bytes(), B_BYTES = LAYOUT.b_bytes(), STAGE = LAYOUT.stage();
  static constexpr int PIECE = LAYOUT.piece(), PITCH = LAYOUT.piece_pitch(), OWN = LAYOUT.piece_floats();
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_TILES_CUH_
