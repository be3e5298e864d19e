// CacheLengthAnalysis: which dims depend on the number of cached positions, in a graph whose sizes were
// followed (compiler/ir/sizes.h).
#pragma once

#include <string>
#include <vector>

#include "compiler/import/cache_ports.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/sizes.h"

namespace rondo::importer {

// A dimension that the number of cached positions does not change; of the cached positions; of those and the
// run's own; of several times those and the run's own (a batch of masks in one row); of some more than those
// (masks that exporters make one too long, and cut); of any other number that depends on them.
enum class Extent : uint8_t { kFixed, kPast, kTotal, kTimesTotal, kBeyondTotal, kOther };

// Of a model imported with `past` cached positions, a size of the run, and `rows` of its own; there is room
// for `length` of both. The graph and its sizes are borrowed; the graph may be changed, as long as nodes that
// were there keep their ids: they are asked for as they were.
class CacheLengthAnalysis {
 public:
  CacheLengthAnalysis(ir::Graph* graph, ir::Sizes* sizes, const CachePorts& ports, int64_t length,
                      const ir::Size& past, int64_t rows)
      : g_(graph), sizes_(sizes), model_(*graph), ports_(ports), length_(length), rows_(rows), past_(past) {}

  // kUnsupported, with the node, if a dimension is not known as a size. Before anything else is asked.
  Status ReadExtents();

  int64_t past() const { return length_ - rows_; }
  ir::Size total() const { return past_ + rows_; }
  // A node as the model has it.
  const ir::Node& model(ir::NodeId id) const { return model_.node(id); }
  Extent extent(ir::NodeId id, int d) const {
    return extents_[static_cast<size_t>(id)][static_cast<size_t>(d)];
  }
  bool Grows(ir::NodeId id) const;
  // Whether some element along positions is of a cache.
  bool IsOfCache(ir::NodeId id) const { return cached_[static_cast<size_t>(id)]; }
  // Whether several rows of positions are one dim of it.
  bool HasRowsInOne(ir::NodeId id) const;

  // Which of the graph's inputs `id` is, if it is a cache; -1 if not.
  int CacheAt(ir::NodeId id) const;
  bool IsOfPositions(ir::NodeId id) const;  // an input with an element for each

  // Whether the input `id` masks caches: what is of it meets what is of a cache place by place, or tells
  // attention how much to see, or where rows are written.
  bool MasksCaches(ir::NodeId id) const;

  // An error that says `why`, and what people can do; the same with the node it is about.
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

  std::vector<std::vector<Extent>> extents_;  // by node, of each of its dims
  std::vector<bool> cached_;                  // by node: some element along positions is of a cache
};

}  // namespace rondo::importer
