// Epilogues that register blocks apply to their sums, while these are in registers.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/matmul_program.h"

namespace rondo::host::RONDO_ISA {

// A BlockEnd at the first row and column of a tile.
struct Ending {
  float* result = nullptr;
  const float* add[kMostAdded] = {};
  const BlockEnd* end = nullptr;

  // pos: the tile's, at the first row of group m; `row`: the tile's first.
  Ending(const BlockEnd& from, const Worker& w, const int64_t* pos, int64_t row) : end(&from) {
    if (from.result == nullptr) return;
    const auto at = [&](const Access& access, int64_t step) {
      return reinterpret_cast<float*>(Pointer(access, w, BaseOf(access, pos) + row * step));
    };
    result = at(*from.result, from.row);
    for (int i = 0; i < from.added; ++i) add[i] = at(*from.add[i], from.add_row[i]);
  }
};

// Fetches what the end of a block reads and writes of rows [row, row + rows), while an earlier block is
// multiplied: a few floats in each of many rows, far apart.
static inline void FetchEnd(const Ending& at, int64_t row, int64_t rows, int64_t column) {
  const BlockEnd& end = *at.end;
  for (int64_t r = row; r < row + rows; ++r) {
    __builtin_prefetch(at.result + r * end.row + column, 1);
    for (int i = 0; i < end.added; ++i) {
      if (end.add_row[i] != 0) __builtin_prefetch(at.add[i] + r * end.add_row[i] + column);
    }
  }
}

// Ends and stores whole vectors of sums, whose first is at `row` and `column` of the tile.
template <int kRows, int kVectors>
static inline __attribute__((always_inline)) void StoreEnded(const Ending& at, int64_t row, int64_t column,
                                                             Vector (&sum)[kRows][kVectors]) {
  const BlockEnd& end = *at.end;
  for (int i = 0; i < end.added; ++i) {
    const float* from = at.add[i] + row * end.add_row[i] + column;
#pragma GCC unroll 16
    for (int m = 0; m < kRows; ++m, from += end.add_row[i]) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[m][v] += *reinterpret_cast<const Vector*>(from + v * kWidth);
    }
  }
  float* to = at.result + row * end.row + column;
  const Vector low = Vector{} + end.low, high = Vector{} + end.high;
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m, to += end.row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vector x = sum[m][v] < low ? low : sum[m][v];
      *reinterpret_cast<Vector*>(to + v * kWidth) = x > high ? high : x;
    }
  }
}

// The same for any number of columns, from sums in memory: rows of `acc` are acc_row floats apart.
static inline void EndRows(const Ending& at, int64_t row, int64_t rows, int64_t column, int columns,
                           const float* acc, int64_t acc_row) {
  const BlockEnd& end = *at.end;
  for (int64_t r = row; r < row + rows; ++r, acc += acc_row) {
    for (int c = 0; c < columns; ++c) {
      float x = acc[c];
      for (int i = 0; i < end.added; ++i) x += at.add[i][r * end.add_row[i] + column + c];
      x = x < end.low ? end.low : x;
      at.result[r * end.row + column + c] = x > end.high ? end.high : x;
    }
  }
}

}  // namespace rondo::host::RONDO_ISA
