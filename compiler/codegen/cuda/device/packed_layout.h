// PackedMatmul: a matmul of few rows by weights of fewer bits (matmul_packed.cuh), as its kernel fixes it;
// and what lies where in its shared memory. Sizes in bytes unless said otherwise.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_LAYOUT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_LAYOUT_H_

#include "compiler/codegen/cuda/device/few_rows_layout.h"
#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// `warps` of a block, and the blocks of a cluster, split K; the others take other columns. All are ints, as
// those of TileMatmul.
struct PackedMatmul {
  int m, n, k;      // rows; the other extents
  int b_count;      // matrices B that share A
  int warps;        // of the block's 8, that split K
  int stages;       // of copies
  int pieces;       // of 512 bytes, that a warp takes in a step
  int cluster;      // blocks that split K
  int type;         // rondo::PackedType
  int bits;         // of a number
  int block;        // numbers along K that share a scale
  int scale_bytes;  // of one
  int scale_bf16;   // of 2 bytes: bf16, else f16
  int zeros;        // blocks have zero points, else all have `zero`
  int zero;
  int bf16;        // what is multiplied: bf16, else f16
  int b_constant;  // B never changes: it is copied before the kernels ahead are complete

  HOST_DEVICE int piece_k() const { return 256 / bits; }
  HOST_DEVICE int warp_k() const { return piece_k() * pieces; }  // of a warp's step
  HOST_DEVICE int tile_k() const { return warp_k() * warps; }    // of a block's step
  HOST_DEVICE int tile_n() const { return 16 * (8 / warps); }
  HOST_DEVICE int blocks() const { return block < warp_k() ? warp_k() / block : 1; }  // of a warp's step
  HOST_DEVICE int scales() const { return blocks() * 16 * scale_bytes; }              // of one B
  HOST_DEVICE int one() const { return pieces * 512 + scales() * (zeros ? 2 : 1); }   // B's part of a slot
  HOST_DEVICE int slot() const { return b_count * one(); }
  HOST_DEVICE int stage() const { return 8 * slot(); }
  HOST_DEVICE int k_pieces() const { return (k + piece_k() - 1) / piece_k(); }
  HOST_DEVICE int k_blocks() const { return k / block + (k % block != 0); }
  // Steps of a block along K.
  HOST_DEVICE int steps() const { return (k + tile_k() * cluster - 1) / (tile_k() * cluster); }
  // All steps of all warps are of numbers that are there.
  HOST_DEVICE bool even_k() const { return k % (tile_k() * cluster) == 0; }
  // Elements from one row of a block's part of A to the next: rows lie in different banks.
  HOST_DEVICE int a_pitch() const { return (steps() * tile_k() + 63) / 64 * 64 + 32; }
  HOST_DEVICE int a_bytes() const { return m * a_pitch() * 2; }
  // What adds the accumulators up.
  HOST_DEVICE FewRowsMatmul few_rows() const {
    return {m, b_count, warps, stages, cluster, 0, 0, bf16, b_constant};
  }
  HOST_DEVICE int shared() const { return stages * stage() + a_bytes() + few_rows().accumulators(); }
};

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_LAYOUT_H_
