// CacheLengthAnalysis: which dims depend on the number of cached positions, in a graph whose sizes were
// followed (compiler/ir/sizes.h).
#pragma once

#include <string>
#include <vector>

#include "compiler/import/cache_ports.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/sizes.h"

namespace rondo::importer {

// How the size of a dim depends on the number of cached positions.
enum class Extent : uint8_t {
  kFixed,        // not at all
  kPast,         // it is that number
  kTotal,        // that number plus the run's own positions
  kTimesTotal,   // a multiple of kTotal: several rows of positions in one dim (a batch of masks in one row)
  kBeyondTotal,  // kTotal plus a constant (masks that exporters make one too long, and cut)
  kOther         // in another way
};

// Analyses a model that was imported with `past` cached positions, a run-time size, and `rows` positions that
// a run adds; there is room for `length` positions in all. Borrows the graph and its sizes. The graph may
// change as long as existing nodes keep their ids: answers about a node describe it as it was before.
class CacheLengthAnalysis {
 public:
  CacheLengthAnalysis(ir::Graph* graph, ir::Sizes* sizes, const CachePorts& ports, int64_t length,
                      const ir::Size& past, int64_t rows)
      : g_(graph), sizes_(sizes), model_(*graph), ports_(ports), length_(length), rows_(rows), past_(past) {}

  // Must be called first. kUnsupported, with the node, if the size of a dim is unknown.
  Status ReadExtents();

  int64_t past() const { return length_ - rows_; }
  ir::Size total() const { return past_ + rows_; }
  // The node before any change.
  const ir::Node& model(ir::NodeId id) const { return model_.node(id); }
  Extent extent(ir::NodeId id, int d) const {
    return extents_[static_cast<size_t>(id)][static_cast<size_t>(d)];
  }
  bool Grows(ir::NodeId id) const;
  // Whether the node is a cache, or a growing value that is computed from one.
  bool IsOfCache(ir::NodeId id) const { return cached_[static_cast<size_t>(id)]; }
  // Whether one of its dims joins several rows of positions.
  bool HasRowsInOne(ir::NodeId id) const;

  // The index of the graph's input `id` if it is a cache; otherwise -1.
  int CacheAt(ir::NodeId id) const;
  bool IsOfPositions(ir::NodeId id) const;  // whether it is an input whose last dim is all positions

  // Whether the input `id` masks caches: values computed from it meet values of a cache in an elementwise
  // operation, are operands of an attention besides q, k and v, or are indices of a write to a cache.
  bool MasksCaches(ir::NodeId id) const;

  // Refuse: an error with the reason `why` and the remedies. Named: `status` with the name of the node.
  Status Refuse(const std::string& why) const;
  Status Named(const Status& status, ir::NodeId id) const;

 protected:
  ir::Graph* g_;
  ir::Sizes* sizes_;
  const ir::Graph model_;
  const CachePorts& ports_;
  const int64_t length_, rows_;
  const ir::Size past_;

 private:
  Extent ExtentOf(const ir::Size& size) const;

  std::vector<std::vector<Extent>> extents_;  // by node and dim
  std::vector<bool> cached_;                  // by node: the answer of IsOfCache
};

}  // namespace rondo::importer
