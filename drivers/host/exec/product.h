// What the three kinds of blocked products share.
#ifndef RONDO_DRIVERS_HOST_EXEC_PRODUCT_H_
#define RONDO_DRIVERS_HOST_EXEC_PRODUCT_H_

#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {

// Runs the lhs prologue of rows [row, row + rows) of group m at pos over all of k. Tile t of row r goes to
// out + t * tile_step + r * row_step.
static inline void PackLhs(const PartProgram& part, Worker& w, int64_t* pos, int64_t row, int64_t rows,
                           float* out, int64_t tile_step, int64_t row_step) {
  const Nest& nest = part.nest;
  TapeFrame frame;
  frame.worker = &w;
  const char* yield = w.scratch + part.lhs_by_k.registers_at + part.lhs_by_k.yield;
  Decode(nest, nest.first[1], nest.first[2], row, pos);
  for (int64_t r = 0; r < rows; ++r) {
    int n = DecodeTile(nest, part.k_tiling, 0, pos);
    for (int64_t t = 0;;) {
      RunTape(part.lhs_by_k, frame, pos, n);
      std::memcpy(out + t * tile_step + r * row_step, yield, static_cast<size_t>(n) * 4);
      if (++t == part.k_tiling.tiles) break;
      n = NextTile(nest, part.k_tiling, pos);
    }
    Advance(nest, nest.first[1], nest.first[2], pos);
  }
}

// Runs the epilogue of rows [row, row + rows) of group m over the n lanes of the tile at pos.
// Accumulator j of row r is at acc + j * part.acc_stride + (acc_row + r) * kLanes floats.
static inline void RunEpilogue(const PartProgram& part, Worker& w, int64_t* pos, int64_t row, int64_t rows,
                               int n, int64_t acc_row = 0) {
  const Nest& nest = part.nest;
  TapeFrame frame;
  frame.worker = &w;
  frame.acc_stride = part.acc_stride;
  Decode(nest, nest.first[1], nest.first[2], row, pos);
  for (int64_t r = 0; r < rows; ++r) {
    frame.acc = w.scratch + part.acc_at + (acc_row + r) * kLanes * 4;
    RunTape(part.program, frame, pos, n);
    Advance(nest, nest.first[1], nest.first[2], pos);
  }
}

}  // namespace rondo::host::RONDO_ISA

#endif  // RONDO_DRIVERS_HOST_EXEC_PRODUCT_H_
