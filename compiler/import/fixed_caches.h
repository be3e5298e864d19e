// Caches of a fixed length from a model whose caches grow.
#ifndef RONDO_COMPILER_IMPORT_FIXED_CACHES_H_
#define RONDO_COMPILER_IMPORT_FIXED_CACHES_H_

#include "compiler/import/cache_ports.h"
#include "compiler/ir/graph.h"

namespace rondo::importer {

// What else is known of what FixCaches gives.
struct FixedNotes {
  // Outputs with an element for every position, which have `length` of them and 0 behind the last real one.
  std::vector<std::string> grown;
  bool begins = false;         // no cache is read: a run's rows are the first of all
  bool asks_for_mask = false;  // where it fails: the sentence asks which input is a mask over positions
};

// `graph` was imported for `length` positions of which a run adds `rows`, `second` for `step` more (a run's
// rows, more or less), `third` for twice `step` more, with identities kept. The graph for any number of
// positions up to `length`: ImportWithFixedCaches (import.h) says what it is given and gives.
Result<ir::Graph> FixCaches(const ir::Graph& graph, const ir::Graph& second, const ir::Graph& third,
                            const CachePorts& ports, int64_t length, int64_t rows, int64_t step,
                            FixedNotes* notes);

// Whether node `id` is a number that import was told to take for what only a run knows (Importer::HideKnown),
// which added `placeholder`, an input, to it.
bool IsHidden(const ir::Graph& graph, ir::NodeId id, ir::NodeId placeholder);

// Which input `cache` is, if nothing reads it; else -1.
int UnreadCache(ir::Graph& graph, const GrowingCache& cache);

// That nobody knows whether the input `name`, a mask of a length of its own, is one over positions.
Status UnclearMask(const std::string& name);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_FIXED_CACHES_H_
