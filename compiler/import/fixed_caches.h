// Rewrites a model with growing caches to caches of a fixed length.
#pragma once

#include "compiler/import/cache_ports.h"
#include "compiler/ir/builder.h"

namespace rondo::importer {

// The number of cached positions, as nodes of an import that follows it.
struct CachedCount {
  ir::NodeId node = ir::kNoNode;   // i64 []
  ir::NodeId asked = ir::kNoNode;  // the new input past_sequence_length, if no input of the model gives it
};

// Graph::RemoveDead, but keeps `count`, which will be read later.
void RemoveDeadBut(ir::Graph* graph, ir::NodeId count);

// Of the inputs that `builder` has made: after the last real one of any batch entry the mask is 0.
CachedCount CountCached(ir::Builder* builder, const CachePorts& ports, int64_t length, int64_t rows);

// What else is known of what FixCaches gives.
struct FixedNotes {
  // Outputs with an element for every position, which have `length` of them and 0 behind the last real one.
  std::vector<std::string> grown;
  bool begins = false;         // no cache is read: a run's rows are the first of all
  bool asks_for_mask = false;  // where it fails: the sentence asks which input is a mask over positions
};

// Makes `graph` one for any number of positions up to `length`, as ImportWithFixedCaches (import.h) says. It
// was imported with room for that many, of which a run adds `rows`, following `past`, which is `count`.
Status FixCaches(ir::Graph* graph, ir::Sizes* sizes, const CachePorts& ports, int64_t length,
                 const ir::Size& past, int64_t rows, const CachedCount& count, FixedNotes* notes);

// Which input `cache` is, if nothing reads it; else -1.
int UnreadCache(ir::Graph& graph, const GrowingCache& cache);

// That nobody knows whether the input `name`, a mask of a length of its own, is one over positions.
Status UnclearMask(const std::string& name);

}  // namespace rondo::importer
