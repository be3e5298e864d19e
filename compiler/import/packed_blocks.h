// Weights [n, k] that lie as numbers of 2, 4 or 8 bits in blocks along k, each with its scale and zero point.
#ifndef RONDO_COMPILER_IMPORT_PACKED_BLOCKS_H_
#define RONDO_COMPILER_IMPORT_PACKED_BLOCKS_H_

#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

struct PackedBlocks {
  int64_t n = 0, k = 0, bits = 0, size = 0;  // size: of a block; size * bits is a number of whole bytes
  // Zero points of bits lie in rows of `zero_rows` blocks each, which begin at a byte; 0: one row of n.
  int64_t zero_rows = 0;
  // Where number i of a row lies in the file, if not at place i: blocks of numbers that do not lie together.
  std::vector<int64_t> order = {};

  int64_t count() const { return (k - 1) / size + 1; }  // blocks of a row
  int64_t bytes() const { return size * bits / 8; }     // of a block
  int64_t zero_row() const { return zero_rows == 0 ? count() : zero_rows; }
  int64_t zero_bytes() const { return (zero_row() * bits + 7) / 8; }
  double middle() const { return static_cast<double>(int64_t{1} << (bits - 1)); }
};

// (number - zero) * scale as [n, k] of `dtype`: inputs `weights` (u8), `scales` (float) and `zeros` (u8,
// float, or none: the middle of the numbers) of the node. A constant, if they are; else worked out in every
// run. kCorrupt where they do not hold as many elements; kUnsupported where they have an order and are no
// constants.
Result<NodeId> Dequantised(OpContext& c, const PackedBlocks& blocks, int weights, int scales, int zeros,
                           DType dtype);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_PACKED_BLOCKS_H_
