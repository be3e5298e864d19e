// PackedSums: sums of few rows of floats by packed weights (core/packed_weights.h), which are unpacked in
// registers.
//
// A vector of a piece has the words of two columns, g and g + 8, for four lanes t and both words that a
// column has there. Position p of it, the codes at bit p of every word, meets the numbers of the left side at
// k = 16 s + 8 h + 2 t + e: so those are put in the order of the lanes once, position after position, the
// rows beside each other, and no code is moved. What the lanes add up is added up at the end. Of few rows the
// sums of a block are scaled, of eight and more what the codes stand for.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host::RONDO_ISA {

// Of up to kPackedRows rows: the left side in the order of lanes.
class PackedRows {
 public:
  // `memory`: what PackedProgram::rows_at has room for, aligned to 64 bytes. Borrowed, as is the program.
  PackedRows(const PackedProgram& packed, float* memory);
  // The first k numbers of `rows` rows, `row` floats apart. Behind k there are zeros.
  void Arrange(const float* a, int64_t row, int rows, int64_t k);
  int rows() const { return rows_; }
  // The 16 floats of a position of a piece; of number `positions()`, and those behind it, the sums of each
  // group of positions that shares a scale.
  const float* At(int row, int64_t piece, int position) const {
    return memory_ + ((piece * vectors_ + position) * rows_ + row) * 16;
  }
  int64_t step() const { return int64_t{16} * rows_; }  // floats from position to position
  int positions() const { return positions_; }
  int groups() const { return groups_; }

 private:
  const PackedProgram& packed_;
  float* memory_;
  int rows_ = 0, positions_, groups_, vectors_;
};

// Where 16 columns begin.
struct PackedTile {
  const char *codes, *scales, *zeros;  // zeros: null, if there are none
  const Access* scale;                 // how scales and zeros are read
};
// acc[r * acc_row + c] = the sums of row r by column c < columns (at most 16) of the tile.
void PackedSums(const PackedProgram& packed, const PackedRows& rows, const PackedTile& tile, int columns,
                float* acc, int64_t acc_row);

}  // namespace rondo::host::RONDO_ISA
