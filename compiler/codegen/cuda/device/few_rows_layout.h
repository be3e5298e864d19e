// FewRowsLayout: how a matmul of few rows streams B, and what lies where in its shared memory
// (matmul_few_rows.cuh, matmul_few_rows_f32.cuh). Sizes in bytes unless said otherwise.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_LAYOUT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_LAYOUT_H_

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// `warps` of a block, and the blocks of a cluster, split K; the others take other columns. wide: lines of B
// run along N, else along K.
struct FewRowsLayout {
  int m = 1, b_count = 1, warps = 8;
  bool wide = false, f32 = false;

  static constexpr int kSlot = 4 * 4096;  // of a stage of one B: 4 pieces of 16 bytes a thread

  HOST_DEVICE int warp_step() const {
    return wide ? 16 : f32 ? 32 : 64;
  }                                                             // of K, that a warp takes at a time
  HOST_DEVICE int step() const { return warp_step() * warps; }  // that a block does
  HOST_DEVICE int warp_columns() const { return f32 ? (wide ? 32 : 16) : wide ? 64 : 16; }
  HOST_DEVICE int columns() const { return warp_columns() * (8 / warps); }  // of a block's tile
  HOST_DEVICE int points() const { return m * columns(); }
  HOST_DEVICE int stage() const { return b_count * kSlot; }
  // Elements from one row of A to the next: rows end in zeros, or lie in different banks.
  template <typename K>
  HOST_DEVICE K a_pitch(K k) const {
    return f32 ? (k + 31) / 32 * 32 : (k + 127) / 128 * 128 + (wide ? 16 : 32);
  }
  template <typename K>
  HOST_DEVICE K a_bytes(K k) const {
    return m * a_pitch(k) * (f32 ? 4 : 2);
  }
  // Of each warp that splits K, and of all of them.
  HOST_DEVICE int sums() const { return b_count * (warps + 1) * points() * 4; }
  template <typename K>
  HOST_DEVICE K besides_stages(K k) const {
    return a_bytes(k) + sums();
  }
};

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_LAYOUT_H_
