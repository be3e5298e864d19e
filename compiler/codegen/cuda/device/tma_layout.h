// TmaLayout: how a matmul whose tiles TMA brings is cut, and what lies where in its shared memory
// (matmul_tma.cuh). Sizes in bytes unless said otherwise.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_LAYOUT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_LAYOUT_H_

#include "compiler/codegen/cuda/device/tile_layout.h"

namespace rondo::cuda {

// Tile K: lines of 128 bytes, as TMA swizzles them and wgmma reads them.
enum : int { kTmaTileK = 64 };

// Tiles of m x n. Of the blocks of a cluster, `down` share the columns and `across` the rows: each copies its
// share for all; `split` divide K. b_along: lines of B run along K, else panels of 64 columns do along N.
struct TmaLayout {
  int m, n, b_count, down, across, split;
  bool b_along;

  HOST_DEVICE int cluster() const { return down * across * split; }
  HOST_DEVICE int groups() const { return m / 64; }                // of four warps, which multiply
  HOST_DEVICE int threads() const { return groups() * 128 + 32; }  // and a warp that copies
  HOST_DEVICE int peers() const { return down + across - 1; }      // blocks that copy into one
  // Stages: A, then the matrices B one behind the other, so that one instruction can multiply with all.
  HOST_DEVICE int panels() const { return b_along ? 1 : (n + 63) / 64; }
  HOST_DEVICE int at_once() const { return b_along || n % 64 == 0 ? b_count : 1; }
  HOST_DEVICE int a_bytes() const { return m * kTmaTileK * 2; }
  HOST_DEVICE int b_bytes() const { return (b_along ? n : panels() * 64) * kTmaTileK * 2; }
  HOST_DEVICE int stage() const { return a_bytes() + b_count * b_bytes(); }
  // Lines that one block asks for, of those that blocks share.
  HOST_DEVICE int a_share() const { return m / across; }
  HOST_DEVICE int b_share() const { return (b_along ? n : int{kTmaTileK}) / down; }
  // A warp puts its 16 rows of sums through memory of its own, so many columns at a time, where K is not
  // split.
  HOST_DEVICE int piece() const { return b_count == 1 && n % 32 == 0 ? 32 : 16; }
  HOST_DEVICE int piece_pitch() const { return piece() + 8; }                    // floats
  HOST_DEVICE int piece_floats() const { return b_count * 16 * piece_pitch(); }  // of a warp
  HOST_DEVICE int pieces() const { return split > 1 ? 0 : groups() * 4 * piece_floats() * 4; }
  // Where K is split, the sums lie where the stages were.
  HOST_DEVICE int sums() const { return split > 1 ? AccumulatorsBytes(m, n, b_count) : 0; }
  // To align the stages, two barriers a stage, and the pieces.
  HOST_DEVICE int besides_stages(int stages) const { return 1024 + 16 * stages + pieces(); }
  HOST_DEVICE int shared(int stages) const { return stages * stage() + besides_stages(stages); }
};

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_LAYOUT_H_
