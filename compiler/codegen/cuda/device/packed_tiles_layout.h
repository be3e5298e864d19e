// PackedTiles: a matmul by weights of fewer bits, tile by tile (matmul_packed_tiles.cuh), as its kernel fixes
// it; and what lies where in its shared memory. Sizes in bytes unless said otherwise.
#pragma once

#include "compiler/codegen/cuda/device/packed_format.h"

namespace rondo::cuda {

// Registers that a thread keeps which only copies, where it leaves others to those that multiply.
enum : int { kCopierRegisters = 40 };
// Bytes of B that a block asks for before the kernels ahead are complete. What they write is A: the more of B
// is under way, the later A arrives.
enum : int { kPackedBytesAhead = 48 << 10 };

// A stage has lines of 128 bytes of A, 64 of K each, one run of them after another; then codes, scales and
// zero points of each B, tile of 16 columns after tile. All are ints, as those of TileMatmul.
struct PackedTiles {
  int m, n;     // the tile: rows, and columns of each B
  int stage_k;  // of K, of a stage: 64 or 128; behind K's end boxes are filled with zeros
  int columns, k;
  int b_count;  // matrices B that share A
  int split_k;  // blocks of a cluster, that divide K
  int stages;
  int lanes;  // neighbouring points of the epilogue
  int words;  // that `fetch` reads ahead of the epilogue, for each call of it
  PackedFormat format;
  int a_made;      // threads make A's tiles; else TMA brings them
  int b_constant;  // B never changes: it is copied before the kernels ahead are complete
  int registers;   // of a thread that multiplies, where those that copy leave theirs; else 0
  // With scales that multiply sums (packed_tiles_rows.cuh): tiles of 64 columns that a warpgroup has;
  // warpgroups that take turns with the steps. Else 0 and 1.
  int warp_tiles, turns;
  // A, which TMA brings as it is, is multiplied as two digits of 8 bits, which threads make of it
  // (packed_tiles_digits.cuh).
  int digits;

  HOST_DEVICE int groups() const { return b_count * n / 64; }  // warpgroups, which multiply 64 columns each
  HOST_DEVICE int column_warps() const { return warp_tiles ? tiles() / warp_tiles : groups() * 4; }
  HOST_DEVICE int multipliers() const { return column_warps() * turns * 32; }  // threads
  // Threads that fill stages; how many say that they have written their part of A.
  HOST_DEVICE int copiers() const { return writers() || registers ? 128 : 32; }
  HOST_DEVICE int writers() const { return a_made ? 128 : digits ? 1 : 0; }
  HOST_DEVICE int threads() const { return multipliers() + copiers(); }
  // Half a stage is unpacked while the half before is multiplied.
  HOST_DEVICE int half_k() const { return stage_k / 2; }
  HOST_DEVICE int tiles() const { return b_count * n / 16; }  // of 16 columns, of a stage
  HOST_DEVICE int steps() const { return (k + stage_k - 1) / stage_k; }
  // A scale a column multiplies sums; others multiply weights.
  HOST_DEVICE bool by_column() const { return format.block >= k; }
  HOST_DEVICE int stage_blocks() const {
    return by_column() ? 0 : format.block < stage_k ? stage_k / format.block : 1;
  }
  // Of A as it is, and as two digits of 8 bits.
  HOST_DEVICE int a_bytes() const { return m * stage_k * 2; }
  // Numbers of A along K that share the power of two by which their digits count; what digits of a stage's
  // blocks need besides: of each row, 8 bytes a block.
  HOST_DEVICE int digit_k() const { return by_column() || format.block > stage_k ? stage_k : format.block; }
  HOST_DEVICE int digit_blocks() const { return stage_k / digit_k(); }
  HOST_DEVICE int terms_bytes() const { return digits ? m * digit_blocks() * 8 : 0; }
  HOST_DEVICE int tile_codes() const { return stage_k * format.bits * 2; }
  // Of each B, run after run of what a box has of a tile's codes, tile after tile.
  HOST_DEVICE int code_run() const { return tile_codes() < 1024 ? tile_codes() : 1024; }
  HOST_DEVICE int tile_scales() const { return stage_blocks() * format.scale_row(); }
  HOST_DEVICE int b_bytes() const { return tiles() * (tile_codes() + tile_scales() * format.scale_rows()); }
  HOST_DEVICE int filled() const { return (writers() ? 0 : a_bytes()) + b_bytes(); }  // by copies that count
  // Stages whose B is asked for before A can be.
  HOST_DEVICE int ahead() const {
    const int wanted = kPackedBytesAhead / b_bytes();
    return wanted < 1 ? 1 : wanted < stages ? wanted : stages;
  }
  // Where boxes of B number j lie in a stage: of codes from byte `first` of a tile's on, and of scales.
  HOST_DEVICE int codes_box(int j, int first) const {
    return a_bytes() + n / 16 * (j * tile_codes() + first);
  }
  HOST_DEVICE int scales_pitch() const { return (n / 16 * tile_scales() + 127) / 128 * 128; }
  HOST_DEVICE int scales_box(int j) const { return a_bytes() + tiles() * tile_codes() + j * scales_pitch(); }
  HOST_DEVICE int zeros_box(int j) const { return scales_box(j) + b_count * scales_pitch(); }
  // Where lane 0 of warp `tile` finds words of its columns, the pairs of each half of a stage one after
  // another; the other lanes' follow, 16 bytes apart. The sum of what depends on either.
  HOST_DEVICE int tile_at(int tile) const {
    return codes_box(tile / (n / 16), 0) + tile % (n / 16) * code_run();
  }
  HOST_DEVICE int pair_at(int half, int pair) const {
    const int byte = half * (tile_codes() / 2) + pair * 256;
    return byte / code_run() * (n / 16) * code_run() + byte % code_run() / 512 * 512 + byte / 256 % 2 * 8;
  }
  // Scales of block number `block` of a half; a column's lie as ScaleAt of core/packed_weights.h has them.
  HOST_DEVICE int scales_at(int tile) const {
    return scales_box(tile / (n / 16)) + tile % (n / 16) * tile_scales();
  }
  HOST_DEVICE int block_at(int half, int block) const {
    return (half * stage_blocks() / 2 + block) * format.scale_row();
  }
  HOST_DEVICE int terms_at() const { return scales_box(0) + b_count * scales_pitch() * format.scale_rows(); }
  HOST_DEVICE int stage() const { return (terms_at() + terms_bytes() + 1023) / 1024 * 1024; }
  // Accumulators go through shared memory, so many rows at a time, where K is not split; else they lie where
  // the stages were.
  HOST_DEVICE int piece() const { return m < 32 ? m : 32; }
  HOST_DEVICE int pitch() const { return n + 4; }  // floats
  HOST_DEVICE int pieces() const { return split_k > 1 ? 0 : turns * b_count * piece() * pitch() * 4; }
  HOST_DEVICE int accumulators() const { return split_k > 1 ? turns * b_count * m * pitch() * 4 : 0; }
  // Warps that make digits, in turns; steps of A as it is behind the stages, where each warp has its own.
  HOST_DEVICE int digit_warps() const { return digits ? 3 : 0; }
  HOST_DEVICE int raw_steps() const { return 2 * digit_warps(); }
  HOST_DEVICE int barriers() const { return 2 * (stages + raw_steps()); }
  // With so many stages: to align them, two barriers for each, and the pieces.
  HOST_DEVICE int besides_stages(int count) const {
    return 1024 + 16 * count + raw_steps() * (a_bytes() + 16) + pieces();
  }
  HOST_DEVICE int shared() const { return stages * stage() + besides_stages(stages); }
};

}  // namespace rondo::cuda
