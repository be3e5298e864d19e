// Weights [n, k] of 2, 4 or 8 bits in blocks along k, each with its scale and zero point.
#pragma once

#include <span>
#include <vector>

#include "compiler/import/mixed_gemm_order.h"
#include "compiler/import/op_context.h"

namespace rondo::importer {

struct PackedBlocks {
  int64_t n = 0, k = 0, bits = 0, size = 0;  // size: of a block; size * bits is a number of whole bytes
  // Zero points of bits lie in rows of `zero_rows` blocks each, which begin at a byte; 0: one row of n.
  int64_t zero_rows = 0;
  // Rows whose scales are not those of their places: where number i of what is read lies in a row of the file
  // (-1: a number of value 0 that fills a block up), and for each block of `read_size` whose scale it has.
  std::vector<int64_t> order = {}, groups = {};
  int64_t read_size = 0;
  // Weights that lie otherwise than by rows, in matrices of n / matrices rows each.
  WeightOrder lie = WeightOrder::kRows;
  int64_t matrices = 1;

  int64_t count() const { return (k - 1) / size + 1; }  // blocks of a row
  // What is read: [n, columns()] in blocks of block().
  int64_t columns() const { return order.empty() ? k : static_cast<int64_t>(order.size()); }
  int64_t block() const { return order.empty() ? size : read_size; }
  int64_t blocks() const { return (columns() - 1) / block() + 1; }
  int64_t group(int64_t i) const {
    return groups.empty() ? i : groups[static_cast<size_t>(i)];
  }                                                  // of block i
  int64_t bytes() const { return size * bits / 8; }  // of a block
  int64_t zero_row() const { return zero_rows == 0 ? count() : zero_rows; }
  int64_t zero_bytes() const { return (zero_row() * bits + 7) / 8; }
  double middle() const { return static_cast<double>(int64_t{1} << (bits - 1)); }
};

// The narrowest type that holds all scales; `given` where that is none of f32 and f64.
DType NarrowestScale(DType given, std::span<const float> scales);

// Whether they are blocks that rondo reads: kUnsupported for other bits, kCorrupt for sizes that are none.
Status CheckBlocks(const PackedBlocks& blocks);

// (number - zero) * scale as [n, columns()] of `dtype`: inputs `weights` (u8), `scales` (float) and `zeros`
// (u8, float, or none: the middle of the numbers) of the node. A constant, if they are; else worked out in
// every run. kCorrupt where they do not hold as many elements; kUnsupported where they have an order, or lie
// in one, and are no constants.
Result<NodeId> Dequantised(OpContext& c, const PackedBlocks& blocks, int weights, int scales, int zeros,
                           DType dtype);

}  // namespace rondo::importer
