#include "compiler/ir/transposed_bytes.h"

#include <algorithm>

#include "compiler/ir/shares.h"

namespace rondo::ir {

namespace {

// The side of a square that is read by rows and written by columns. A square stays in the L1 cache.
constexpr int64_t kSide = 64;
constexpr int64_t kLeastSquares = 16;  // squares worth a thread

}  // namespace

std::vector<uint8_t> TransposedBytes(std::span<const uint8_t> matrices, int64_t rows, int64_t columns) {
  std::vector<uint8_t> transposed(matrices.size());
  if (transposed.empty()) return transposed;
  const int64_t count = static_cast<int64_t>(matrices.size()) / (rows * columns);
  const int64_t down = (rows + kSide - 1) / kSide, across = (columns + kSide - 1) / kSide;
  const uint8_t* const from = matrices.data();
  uint8_t* const to = transposed.data();
  InShares(count * down * across, kLeastSquares, [=](int64_t first, int64_t last) {
    for (int64_t square = first; square < last; ++square) {
      const int64_t matrix = square / (down * across) * rows * columns;
      // Squares go downwards, so that a thread writes whole lines.
      const int64_t row = square % down * kSide, column = square / down % across * kSide;
      const int64_t rows_end = std::min(rows, row + kSide), columns_end = std::min(columns, column + kSide);
      for (int64_t j = column; j < columns_end; ++j) {
        for (int64_t i = row; i < rows_end; ++i) to[matrix + j * rows + i] = from[matrix + i * columns + j];
      }
    }
  });
  return transposed;
}

}  // namespace rondo::ir
