// AttentionLayout: how queries are put into blocks, and what lies where in their shared memory
// (attention_block.cuh).
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// A block has kWarps warps of warp_rows queries; `splits` of them share their queries, and each has its share
// of the keys.
struct AttentionLayout {
  static constexpr int kWarps = 8;
  static constexpr int kRun = 16;  // keys of a warp at a time, and the most queries

  int warp_rows, values, splits;

  HOST_DEVICE int groups() const { return kWarps / splits; }  // warps with queries of their own
  HOST_DEVICE int queries() const { return groups() * warp_rows; }
  // Of a query that a warp has kept, in floats: its values, then the greatest score and the sum of weights.
  HOST_DEVICE int most() const { return values + 4; }
  HOST_DEVICE int total() const { return most() + 1; }
  HOST_DEVICE int row() const { return values + 6; }  // even, for pairs
  HOST_DEVICE int rows_bytes() const { return kWarps * warp_rows * row() * 4; }
  // Pairs of values that the blocks of a cluster put together, each an equal share of them: behind its rows,
  // a block gets a message of kMessage bytes from every block for each of its own.
  static constexpr int kMessage = 16;
  HOST_DEVICE int pairs() const { return queries() * values / 2; }
  HOST_DEVICE int own_pairs(int cluster) const { return (pairs() + cluster - 1) / cluster; }
  // Bytes; `shared_by`: blocks that share the queries.
  HOST_DEVICE int shared(int shared_by) const {
    return rows_bytes() + (shared_by > 1 ? shared_by * own_pairs(shared_by) * kMessage : 0);
  }
};

}  // namespace rondo::cuda
