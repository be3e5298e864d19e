#include "compiler/ir/transposed_bytes.h"

#include <gtest/gtest.h>

namespace rondo::ir {
namespace {

TEST(TransposedBytes, EveryByteOfEveryMatrixIsWhereRowsAndColumnsChangedPlaces) {
  struct Case {
    int64_t count, rows, columns;
  };
  for (const Case& c : {Case{1, 1, 1}, Case{3, 5, 2}, Case{2, 64, 64}, Case{2, 70, 130}, Case{1, 1, 300},
                        Case{1, 1000, 257}}) {
    std::vector<uint8_t> matrices(static_cast<size_t>(c.count * c.rows * c.columns));
    for (size_t i = 0; i < matrices.size(); ++i) matrices[i] = static_cast<uint8_t>(i * 131 + i / 251);
    const std::vector<uint8_t> transposed = TransposedBytes(matrices, c.rows, c.columns);
    ASSERT_EQ(transposed.size(), matrices.size());
    for (int64_t m = 0, at = 0; m < c.count; ++m) {
      for (int64_t i = 0; i < c.rows; ++i) {
        for (int64_t j = 0; j < c.columns; ++j, ++at) {
          const int64_t to = (m * c.columns + j) * c.rows + i;
          ASSERT_EQ(transposed[static_cast<size_t>(to)], matrices[static_cast<size_t>(at)])
              << c.rows << " x " << c.columns << ", matrix " << m << ", row " << i << ", column " << j;
        }
      }
    }
  }
  EXPECT_TRUE(TransposedBytes({}, 0, 3).empty());
}

}  // namespace
}  // namespace rondo::ir
