// Rewrites a model with growing caches to use caches of a fixed length.
#pragma once

#include "compiler/import/cache_ports.h"
#include "compiler/ir/builder.h"

namespace rondo::importer {

// The number of cached positions, as nodes of a graph in which that number is a size.
struct CachedCount {
  ir::NodeId node = ir::kNoNode;   // i64 []
  ir::NodeId asked = ir::kNoNode;  // the new input past_sequence_length, if no input of the model gives it
};

// Graph::RemoveDead, but keeps `count`, which gets its readers later.
void RemoveDeadBut(ir::Graph* graph, ir::NodeId count);

// Computes the number of cached positions from the inputs in `builder`'s graph: from a mask, which is 0 after
// the last real position of every batch entry; otherwise from the lengths of GroupQueryAttention; otherwise
// from a new input.
CachedCount CountCached(ir::Builder* builder, const CachePorts& ports, int64_t length, int64_t rows);

// What FixCaches reports besides the graph.
struct FixedNotes {
  // Outputs with an element for every position. They have `length` elements, with 0 after the last real one.
  std::vector<std::string> grown;
  bool begins = false;         // no cache is read, so every run starts at the first position
  bool asks_for_mask = false;  // on failure: the message asks which input is a mask over positions
};

// Rewrites `graph` so that it is valid for any number of positions up to `length`, as ImportWithFixedCaches
// (import.h) describes. The graph must have been imported with room for `length` positions, of which a run
// adds `rows`. `past` is the number of cached positions as a size, and `count` gives it as nodes.
Status FixCaches(ir::Graph* graph, ir::Sizes* sizes, const CachePorts& ports, int64_t length,
                 const ir::Size& past, int64_t rows, const CachedCount& count, FixedNotes* notes);

// The index of the input of `cache` if no node reads it; otherwise -1.
int UnreadCache(ir::Graph& graph, const GrowingCache& cache);

// The error for the input `name`, a mask with a length of its own, if nothing shows that it is a mask over
// positions.
Status UnclearMask(const std::string& name);

}  // namespace rondo::importer
