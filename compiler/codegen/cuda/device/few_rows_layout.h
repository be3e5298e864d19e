// FewRowsMatmul: a matmul of few rows, which streams B (matmul_few_rows.cuh), as its kernel fixes it; and
// what lies where in its shared memory. Sizes in bytes unless said otherwise.
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// `warps` of a block, and the blocks of a cluster, split K; the others take other columns. All are ints, as
// those of TileMatmul.
struct FewRowsMatmul {
  int m;           // rows
  int b_count;     // matrices B that share A
  int warps;       // of the block's 8, that split K
  int stages;      // of copies
  int cluster;     // blocks that split K
  int n_major;     // lines of B run along N, else along K
  int f32;         // FMA in f32, else 16-bit types on tensor cores
  int bf16;        // of 16-bit types: bf16, else f16
  int b_constant;  // B never changes: it is copied before the kernels ahead are complete
  int block_warps = 8;
  int bytes = 0;     // elements of A and B are bytes, and lines of B run along K
  int whole = 0;     // of bytes: integers, whose sums are the bits of 32-bit integers
  int sums = 0;      // of integers: what rows of A sum to, too, behind the sums of all B
  int streamed = 0;  // B comes from memory in every run: its lines are the first to leave L2

  static constexpr int kSlot = 4 * 4096;  // of a stage of one B: 4 pieces of 16 bytes a thread

  HOST_DEVICE int piece() const { return bytes ? 16 : f32 ? 4 : 8; }                     // elements
  HOST_DEVICE int warp_k() const { return bytes ? 128 : n_major ? 16 : f32 ? 32 : 64; }  // of a warp's step
  HOST_DEVICE int warp_n() const { return f32 ? (n_major ? 32 : 16) : n_major ? 64 : 16; }
  HOST_DEVICE int tile_k() const { return warp_k() * warps; }  // of a block's step
  HOST_DEVICE int tile_n() const { return warp_n() * (block_warps / warps); }
  HOST_DEVICE int threads() const { return 32 * block_warps; }
  HOST_DEVICE int points() const { return m * tile_n(); }
  HOST_DEVICE int stage() const { return b_count * kSlot; }
  // Elements from one row of A to the next: rows end in zeros, or lie in different banks. Of bytes a block
  // has its own part of K only.
  template <typename Int>
  HOST_DEVICE Int a_pitch(Int k) const {
    if (bytes) {
      const Int round = tile_k() * cluster;
      return ((k + round - 1) / round * tile_k() + 127) / 128 * 128 + 64;
    }
    return f32 ? (k + 31) / 32 * 32 : (k + 127) / 128 * 128 + (n_major ? 16 : 32);
  }
  template <typename Int>
  HOST_DEVICE Int a_bytes(Int k) const {
    return m * a_pitch(k) * (bytes ? 1 : f32 ? 4 : 2);
  }
  // Of each warp that splits K, and of all of them.
  HOST_DEVICE int accumulators() const { return (b_count + sums) * (warps + 1) * points() * 4; }
  template <typename Int>
  HOST_DEVICE Int besides_stages(Int k) const {
    return a_bytes(k) + accumulators();
  }
};

}  // namespace rondo::cuda
