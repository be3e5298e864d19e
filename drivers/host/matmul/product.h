// Packing of the lhs and running of the epilogue, for all blocked matmuls.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host::RONDO_ISA {

// Runs the lhs prologue of rows [row, row + rows) of group m at pos over all of k. Row r begins at out + r *
// row_step, and tiles of k lie tile_step apart (0: contiguous).
static inline void PackLhs(const Nest& nest, const LeftSide& left, Worker& w, int64_t* pos, int64_t row,
                           int64_t rows, float* out, int64_t tile_step, int64_t row_step) {
  TapeFrame frame;
  frame.worker = &w;
  Decode(nest, nest.first[1], nest.first[2], row, pos);
  for (int64_t r = 0; r < rows; ++r) {
    int n = DecodeTile(nest, left.tiling, 0, pos);
    float* to = out + r * row_step;
    for (int64_t t = 0;;) {
      if (left.load != nullptr) {
        LoadLanes(*left.load, w, pos, n, to);
      } else {
        RunTape(left.program, frame, pos, n);
        std::memcpy(to, RegisterOf(left.program, w, left.program.yield), static_cast<size_t>(n) * 4);
      }
      if (++t == left.tiling.tiles || Stopped(w)) break;
      to += tile_step == 0 ? n : tile_step;
      n = NextTile(nest, left.tiling, pos);
    }
    Advance(nest, nest.first[1], nest.first[2], pos);
  }
}

// Runs the epilogue of rows [row, row + rows) of group m over the n lanes of the tile at pos.
// Accumulator j of row r is at acc + j * part.acc_stride + (acc_row + r) * part.acc_row floats.
static inline void RunEpilogue(const MatmulPart& part, Worker& w, int64_t* pos, int64_t row, int64_t rows,
                               int n, int64_t acc_row = 0) {
  const Nest& nest = part.nest;
  const int inner = nest.first[2] - 1;
  TapeFrame frame;
  frame.worker = &w;
  frame.acc_stride = part.acc_stride;
  frame.acc_lanes = n;
  frame.acc_row = part.acc_row;
  Decode(nest, nest.first[1], nest.first[2], row, pos);
  for (int64_t r = 0; r < rows;) {
    const int64_t count = part.epilogue_rows == 1
                              ? 1
                              : Least(Least(part.epilogue_rows, rows - r), nest.extent[inner] - pos[inner]);
    frame.acc = w.scratch + part.acc_at + (acc_row + r) * part.acc_row * 4;
    RunTape(part.epilogue, frame, pos, static_cast<int>(count) * n);
    r += count;
    pos[inner] += count - 1;
    Advance(nest, nest.first[1], nest.first[2], pos);
  }
}

}  // namespace rondo::host::RONDO_ISA
