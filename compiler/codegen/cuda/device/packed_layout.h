// PackedMatmul: a matmul of few rows by weights of fewer bits (matmul_packed.cuh), as its kernel fixes it;
// and what lies where in its shared memory. Sizes in bytes unless said otherwise.
#pragma once

#include "compiler/codegen/cuda/device/few_rows_layout.h"
#include "compiler/codegen/cuda/device/host_device.h"
#include "compiler/codegen/cuda/device/packed_format.h"

namespace rondo::cuda {

// `warps` of a block's `block_warps`, and the blocks of a cluster, split K; the others take other columns.
// All are ints, as those of TileMatmul.
struct PackedMatmul {
  int m, n, k;  // rows; the other extents
  int b_count;  // matrices B that share A
  int warps;    // that split K
  int stages;   // of copies
  int pieces;   // of 512 bytes, that a warp takes in a step
  int cluster;  // blocks that split K
  PackedFormat format;
  int b_constant;   // B never changes: it is copied before the kernels ahead are complete
  int block_warps;  // of a block
  int digits;       // whether A is multiplied as two digits of 8 bits (packed_digits.cuh), else as it is
  int streamed;     // B comes from memory in every run: its lines are the first to leave L2

  HOST_DEVICE int threads() const { return 32 * block_warps; }
  HOST_DEVICE int warp_k() const { return format.piece_k() * pieces; }  // of a warp's step
  HOST_DEVICE int tile_k() const { return warp_k() * warps; }           // of a block's step
  HOST_DEVICE int tile_n() const { return 16 * (block_warps / warps); }
  HOST_DEVICE int blocks() const {
    return format.block < warp_k() ? warp_k() / format.block : 1;
  }                                                                         // of a warp's step
  HOST_DEVICE int block_k() const { return warp_k() / blocks(); }           // of those that share a scale
  HOST_DEVICE int scales() const { return blocks() * format.scale_row(); }  // of one B
  HOST_DEVICE int one() const { return pieces * 512 + scales() * format.scale_rows(); }  // B's part of a slot
  HOST_DEVICE int slot() const { return b_count * one(); }
  HOST_DEVICE int stage() const { return block_warps * slot(); }
  HOST_DEVICE int k_pieces() const { return format.pieces(k); }
  HOST_DEVICE int k_blocks() const { return format.blocks(k); }
  // Steps of a block along K.
  HOST_DEVICE int steps() const { return (k + tile_k() * cluster - 1) / (tile_k() * cluster); }
  // All steps of all warps are of numbers that are there.
  HOST_DEVICE bool even_k() const { return k % (tile_k() * cluster) == 0; }
  // Elements from one row of a block's part of A to the next: rows lie in different banks.
  HOST_DEVICE int a_pitch() const { return (steps() * tile_k() + 63) / 64 * 64 + 32; }
  // Bytes from one digit of a row to the next, likewise.
  HOST_DEVICE int digit_pitch() const { return (steps() * tile_k() + 127) / 128 * 128 + 64; }
  HOST_DEVICE int a_bytes() const { return 2 * m * (digits ? digit_pitch() : a_pitch()); }
  HOST_DEVICE int row_columns() const { return digits ? 2 : 1; }
  // Of the 8 columns of an instruction: those that a block has, `row_columns` for each row, and the blocks
  // that take them side by side.
  HOST_DEVICE int columns() const { return m * row_columns() <= 2 ? 2 : m * row_columns() <= 4 ? 4 : 8; }
  HOST_DEVICE int abreast() const { return blocks() < 8 / columns() ? blocks() : 8 / columns(); }
  HOST_DEVICE int fragments() const { return (m * row_columns() + 7) / 8; }
  // What whole numbers have too much is taken from the sums: it needs those of A, for each block. In f16 that
  // would be 1024 times those, too much for what is left, and pairs are corrected one by one.
  HOST_DEVICE bool summed() const { return !digits && format.bf16 && format.bits < 8 && format.type <= 3; }
  HOST_DEVICE int sums_bytes() const {
    const int columns_of_all = steps() * tile_k() / block_k() * fragments() * columns();
    return digits ? columns_of_all * 4 + 64 : summed() ? columns_of_all * 8 + 64 : 0;
  }
  // Zeros, which columns read that are no row's, in other banks than rows.
  HOST_DEVICE int blank_bytes() const { return warp_k() * 2; }
  HOST_DEVICE int accumulators_at() const {
    return stages * stage() + a_bytes() + blank_bytes() + sums_bytes();
  }
  // What adds the accumulators up.
  HOST_DEVICE FewRowsMatmul few_rows() const {
    return {m, b_count, warps, stages, cluster, 0, 0, format.bf16, b_constant, block_warps};
  }
  HOST_DEVICE int shared() const { return accumulators_at() + few_rows().accumulators(); }
};

}  // namespace rondo::cuda
