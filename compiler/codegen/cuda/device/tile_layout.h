// TileMatmul: a matmul by tiles whose stages the threads copy (matmul_tiles.cuh), as its kernel fixes it; and
// what lies where in its shared memory. Sizes in bytes unless said otherwise.
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// Floats from one row of accumulators of `n` columns to the next: threads that walk down them meet different
// banks. What a row of A sums to (TileMatmul::sums) lies behind the columns of the first B.
HOST_DEVICE int AccumulatorsPitch(int n) { return n + 4; }
// The accumulators of a tile in shared memory.
HOST_DEVICE int AccumulatorsBytes(int m, int n, int b_count) {
  return b_count * m * AccumulatorsPitch(n) * 4;
}

// An operand's tile (A's: mn rows, B's: mn columns) by `k`, of 16-bit elements: lines along K if k_major,
// else along M or N.
struct OperandTileLayout {
  int mn, k;
  bool k_major;
  HOST_DEVICE int line() const { return (k_major ? k : mn) * 2; }
  HOST_DEVICE int bytes() const { return mn * k * 2; }
};

// Of f32: lines are one piece of 16 bytes longer, so that threads that walk down them meet different banks.
struct FloatOperandTileLayout {
  int mn, k;
  bool k_major;
  HOST_DEVICE int length() const { return k_major ? k : mn; }  // elements of a line
  HOST_DEVICE int pitch() const { return length() + 4; }       // elements
  HOST_DEVICE int lines() const { return k_major ? mn : k; }
  HOST_DEVICE int bytes() const { return lines() * pitch() * 4; }
};

// A stage: A, then B_COUNT matrices B. The accumulators lie where the stages were.
struct TileLayout {
  int m, n, k;           // the tile
  int b_count;           // matmuls that share A
  int a_bytes, b_bytes;  // of A, and of each B
  int alignment = 1;     // of the first stage
  int copies = 1;        // of the accumulators: of warps that split K, each has its own

  HOST_DEVICE int stage() const { return a_bytes + b_count * b_bytes; }
  // Bytes that may be left out to align the first stage.
  HOST_DEVICE int slack() const { return alignment > 1 ? alignment : 0; }
  HOST_DEVICE int shared(int stages) const {
    const int accumulators = copies * AccumulatorsBytes(m, n, b_count), all = stages * stage();
    return slack() + (all > accumulators ? all : accumulators);
  }
};

// Tile K and stages of f32, whether by FMA or as tf32.
enum : int { kFloatTileK = 32, kFloatStages = 4 };
// Of accumulators, at most, where there are several copies: two blocks find room on a multiprocessor.
enum : int { kCopiedAccumulators = 36 << 10 };
// By wgmma: two warpgroups, 64 rows each; lines of 128 bytes, 64 elements of 16 bits.
enum : int { kWgmmaTileM = 128, kWgmmaTileK = 64, kWgmmaTileBytes = 128 };

// Each family of matmuls reads what it needs of it. All are ints, so that the compiler writes it as text
// field by field (Aggregate of writer.h); flags are 0 or 1.
struct TileMatmul {
  int m, n, k;                    // the tile
  int warps_m, warps_n, warps_k;  // into which the tile's extents are split, where warps multiply (mma, tf32)
  int stages;                     // of copies
  int b_count;                    // matrices B that share A
  int cluster;                    // blocks that split K
  // How an operand is read: whether its lines run along K (else along M or N), and the elements of one
  // access; 0: made one by one; below 0 (of 16-bit types): made so many at a time.
  int a_k_major, a_vector;
  int b_k_major, b_vector;
  int lanes;       // neighbouring points of the epilogue
  int bf16;        // of 16-bit types: bf16, else f16
  int b_constant;  // B never changes: it may be read before the kernels ahead are complete
  int down;        // neighbouring threads compute neighbouring rows: results lie next to each other along M
  int sums;        // of 8-bit integers: what each row of A sums to is handed to the epilogue, behind all B

  // Of the accumulators of warps that split K, where there is room: they are added up by who reads them, not
  // by one warp after another.
  HOST_DEVICE int copies() const {
    return cluster == 1 && warps_k * AccumulatorsBytes(m, n, b_count) <= kCopiedAccumulators ? warps_k : 1;
  }
  // Of 16-bit types, by mma.sync.
  HOST_DEVICE TileLayout mma_layout() const {
    return {m,
            n,
            k,
            b_count,
            OperandTileLayout{m, k, true}.bytes(),
            OperandTileLayout{n, k, true}.bytes(),
            /*alignment*/ 1,
            copies()};
  }
  // Of 8-bit integers and FP8; lines along K.
  HOST_DEVICE TileLayout byte_layout() const {
    return {m, n, k, b_count, m * k, n * k, /*alignment*/ 1, copies()};
  }
  HOST_DEVICE TileLayout wgmma_byte_layout() const {
    TileLayout layout = byte_layout();
    layout.alignment = 1024;
    layout.copies = 1;
    return layout;
  }
  HOST_DEVICE TileLayout wgmma_layout() const {
    TileLayout layout = mma_layout();
    layout.alignment = 1024;
    layout.copies = 1;
    return layout;
  }
  HOST_DEVICE TileLayout float_layout() const {
    return {m,
            n,
            k,
            b_count,
            FloatOperandTileLayout{m, k, a_k_major != 0}.bytes(),
            FloatOperandTileLayout{n, k, b_k_major != 0}.bytes()};
  }
};

// Extents of a matmul of one batch.
struct MatmulExtents {
  int m, n, k;
};

}  // namespace rondo::cuda
