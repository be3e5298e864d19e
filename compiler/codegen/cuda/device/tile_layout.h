// TileLayout: what lies where in the shared memory of a matmul by tiles whose stages the threads copy
// (matmul_tiles.cuh). Sizes in bytes unless said otherwise.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_LAYOUT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_LAYOUT_H_

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// Floats from one row of sums of `n` columns to the next: threads that walk down them meet different banks.
HOST_DEVICE int AccumulatorsPitch(int n) { return n + 4; }
// The accumulators of a tile in shared memory.
HOST_DEVICE int AccumulatorsBytes(int m, int n, int b_count) {
  return b_count * m * AccumulatorsPitch(n) * 4;
}

// One side of a tile, `side` rows (of B: columns) by `k`, of 16-bit elements: lines along K if `along`, else
// along the side.
struct OperandTileLayout {
  int side, k;
  bool along;
  HOST_DEVICE int line() const { return (along ? k : side) * 2; }
  HOST_DEVICE int bytes() const { return side * k * 2; }
};

// Of f32: lines are one piece of 16 bytes longer, so that threads that walk down them meet different banks.
struct FloatOperandTileLayout {
  int side, k;
  bool along;
  HOST_DEVICE int length() const { return along ? k : side; }  // elements of a line
  HOST_DEVICE int pitch() const { return length() + 4; }       // elements
  HOST_DEVICE int lines() const { return along ? side : k; }
  HOST_DEVICE int bytes() const { return lines() * pitch() * 4; }
};

// A stage: A, then B_COUNT matrices B. The sums lie where the stages were.
struct TileLayout {
  int m, n, k;           // the tile
  int b_count;           // matmuls that share A
  int a_bytes, b_bytes;  // of A, and of each B
  int alignment = 1;     // of the first stage

  HOST_DEVICE int stage() const { return a_bytes + b_count * b_bytes; }
  // Bytes that may be left out to align the first stage.
  HOST_DEVICE int slack() const { return alignment > 1 ? alignment : 0; }
  HOST_DEVICE int shared(int stages) const {
    const int sums = AccumulatorsBytes(m, n, b_count), all = stages * stage();
    return slack() + (all > sums ? all : sums);
  }
};

// Of 16-bit types, by mma.sync.
HOST_DEVICE TileLayout MmaLayout(int m, int n, int k, int b_count) {
  return {m, n, k, b_count, OperandTileLayout{m, k, true}.bytes(), OperandTileLayout{n, k, true}.bytes()};
}

// By two groups of four warps and wgmma, 64 rows each, which wants lines of 128 bytes.
enum : int { kWgmmaTileM = 128, kWgmmaTileK = 64 };
HOST_DEVICE TileLayout WgmmaLayout(int n, int b_count) {
  return {kWgmmaTileM, n, kWgmmaTileK, b_count, kWgmmaTileM * kWgmmaTileK * 2, n * kWgmmaTileK * 2, 1024};
}

// Of f32, by FMA or as tf32.
enum : int { kFloatTileK = 32, kFloatStages = 4 };
HOST_DEVICE TileLayout FloatLayout(int m, int n, int b_count, bool a_along, bool b_along) {
  return {m,
          n,
          kFloatTileK,
          b_count,
          FloatOperandTileLayout{m, kFloatTileK, a_along}.bytes(),
          FloatOperandTileLayout{n, kFloatTileK, b_along}.bytes()};
}

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_LAYOUT_H_
