// PackedSums: matmuls of few rows of floats with packed weights (core/packed_weights.h), which are unpacked
// in registers.
//
// A vector of a piece has the words of two columns, g and g + 8, for four lanes t, and both words of a column
// there. Position p of it, the codes at bit p of every word, is multiplied by the lhs numbers at k = 16 s + 8
// h + 2 t + e. So the lhs is rearranged once into the order of the lanes, position by position, with rows
// adjacent, and codes stay where they are. Lanes are added up at the end. With few rows the sums of a block
// are scaled; with eight or more, the unpacked values.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host::RONDO_ISA {

// Up to kPackedRows rows of the lhs, in the order of lanes.
class PackedRows {
 public:
  // `memory`: the scratch at PackedProgram::rows_at, aligned to 64 bytes. Borrowed, and so is the program.
  PackedRows(const PackedProgram& packed, float* memory);
  // Rearranges the first k numbers of `rows` rows, `row` floats apart; pads with zeros.
  void Arrange(const float* a, int64_t row, int rows, int64_t k);
  int rows() const { return rows_; }
  // The 16 floats of a position of a piece. Positions from `positions()` on hold the sums of each group of
  // positions that shares a scale.
  const float* At(int row, int64_t piece, int position) const {
    return memory_ + ((piece * vectors_ + position) * rows_ + row) * 16;
  }
  int64_t step() const { return int64_t{16} * rows_; }  // floats between positions
  int positions() const { return positions_; }
  int groups() const { return groups_; }

 private:
  const PackedProgram& packed_;
  float* memory_;
  int rows_ = 0, positions_, groups_, vectors_;
};

// The start of 16 columns.
struct PackedTile {
  const char *codes, *scales, *zeros;  // zeros: null if there are none
  const Access* scale;                 // the access to scales and zeros
};
// acc[r * acc_row + c] = the sums of row r by column c < columns (at most 16) of the tile.
void PackedSums(const PackedProgram& packed, const PackedRows& rows, const PackedTile& tile, int columns,
                float* acc, int64_t acc_row);

}  // namespace rondo::host::RONDO_ISA
