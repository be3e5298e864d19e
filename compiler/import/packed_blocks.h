// Weights [n, k] of 2, 4 or 8 bits in blocks along k, each block with its scale and zero point.
#pragma once

#include <span>
#include <vector>

#include "compiler/import/mixed_gemm_order.h"
#include "compiler/import/op_context.h"

namespace rondo::importer {

struct PackedBlocks {
  int64_t n = 0, k = 0, bits = 0, size = 0;  // size: of a block; size * bits is a number of whole bytes
  // Packed zero points are in rows of `zero_rows` blocks, and each row begins at a byte. 0: in rows of the
  // blocks of one row of weights.
  int64_t zero_rows = 0;
  // For weights whose blocks are not adjacent in the file (g_idx): the place in the file's row of each number
  // of a row as it is read (-1: a 0 that fills up a block), and for each block of `read_size` such numbers
  // the block of the file whose scale it has.
  std::vector<int64_t> order = {}, groups = {};
  int64_t read_size = 0;
  // The order of the weights, which are in matrices of n / matrices rows each.
  WeightOrder lie = WeightOrder::kRows;
  int64_t matrices = 1;

  int64_t count() const { return (k - 1) / size + 1; }  // blocks per row
  // The weights as they are read: [n, columns()] in blocks of block().
  int64_t columns() const { return order.empty() ? k : static_cast<int64_t>(order.size()); }
  int64_t block() const { return order.empty() ? size : read_size; }
  int64_t blocks() const { return (columns() - 1) / block() + 1; }
  // The block of the file whose scale block i has.
  int64_t group(int64_t i) const { return groups.empty() ? i : groups[static_cast<size_t>(i)]; }
  int64_t bytes() const { return size * bits / 8; }  // per block
  int64_t zero_row() const { return zero_rows == 0 ? count() : zero_rows; }
  int64_t zero_bytes() const { return (zero_row() * bits + 7) / 8; }
  double middle() const { return static_cast<double>(int64_t{1} << (bits - 1)); }
};

// The type in which to store the scales. f32 becomes the narrowest type that holds all of them exactly, f64
// becomes f32, and other types stay.
DType NarrowestScale(DType given, std::span<const float> scales);

// kUnsupported for bits other than 2, 4 and 8, and kCorrupt for invalid sizes.
Status CheckBlocks(const PackedBlocks& blocks);

// (number - zero) * scale as [n, columns()] of `dtype`, from the node's inputs `weights` (u8), `scales`
// (float) and `zeros` (u8 or float; if absent, the middle of the numbers). A constant if all inputs are
// constants; otherwise computed in every run. kCorrupt if the inputs have the wrong number of elements.
// kUnsupported if they are not constants and the weights have an `order` or do not lie in rows.
Result<NodeId> Dequantised(OpContext& c, const PackedBlocks& blocks, int weights, int scales, int zeros,
                           DType dtype);

}  // namespace rondo::importer
