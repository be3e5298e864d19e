// Attention over a cache with a fixed number of positions that the operator itself writes;
// GroupQueryAttention and SparseAttention share it.
#pragma once

#include <functional>

#include "compiler/import/op_context.h"

namespace rondo::importer {

// The values on which an operator's additional mask may depend.
struct GroupedQueries {
  int64_t heads = 0, rows = 0;
  ir::Size positions;      // of the cache
  NodeId place = kNoNode;  // i64 [b, rows]: the position of each query
};
// bool, broadcast to [b, heads, rows, positions]: false drops a key. kNoNode: drops none.
using KeptKeys = std::function<Result<NodeId>(const GroupedQueries&)>;

// GroupQueryAttention; `c` has its inputs, outputs and attributes. `kept` may be empty.
Status GroupedAttention(OpContext& c, const KeptKeys& kept);

}  // namespace rondo::importer
