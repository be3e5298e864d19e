// Three imports of one model, for more and more cached positions: what grows with them, and how.
#ifndef RONDO_COMPILER_IMPORT_GROWTH_H_
#define RONDO_COMPILER_IMPORT_GROWTH_H_

#include <optional>
#include <string>
#include <vector>

#include "compiler/import/cache_ports.h"
#include "compiler/ir/graph.h"

namespace rondo::importer {

// A dimension of every import alike, of the cached positions, of those and the run's own, of several times
// those and the run's own (a batch of masks in one row), or of some more than those (masks that exporters
// make one too long, and cut).
enum class Extent : uint8_t { kFixed, kPast, kTotal, kTimesTotal, kBeyondTotal };

// The first graph is for `length` positions of which a run adds `rows`, the others for `step` (a run's rows,
// more or less) and twice `step` more. They are borrowed; the first may be changed, as long as nodes that
// were there keep their ids.
class Growth {
 public:
  Growth(ir::Graph* graph, const ir::Graph& second, const ir::Graph& third, const CachePorts& ports,
         int64_t length, int64_t rows, int64_t step)
      : g_(graph), second_(second), third_(third), ports_(ports), length_(length), rows_(rows), step_(step) {}

  // kUnsupported, with the node, unless the graphs have the same operations and every dimension is of one
  // kind. Before anything else is asked, and before the first graph is changed.
  Status ReadExtents();

  int64_t past() const { return length_ - rows_; }
  const ir::Node& second(ir::NodeId id) const { return second_.node(id); }
  const ir::Node& third(ir::NodeId id) const { return third_.node(id); }
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
  bool IsMask(ir::NodeId id) const;         // an input that is 0 for what is no position
  bool IsOfPositions(ir::NodeId id) const;  // an input with an element for each

  // Whether the input `id` masks caches: what is of it meets what is of a cache place by place, or tells
  // attention how much to see, or where rows are written. At three lengths that is no accident.
  bool MasksCaches(ir::NodeId id) const;

  // Whether the elements of constant `id` are those of another graph's at the same places, but `shift`
  // further along the dims that grow in the longer of the two.
  bool Alike(ir::NodeId id, const ir::Node& other, int64_t shift) const;
  // What each element of constant `id` grows by with a position. False if they do not grow evenly.
  bool Slopes(ir::NodeId id, std::vector<double>* slopes) const;

  // kUnsupported if node `id` adds positions up that may hold nothing: behind the last real one a mask has
  // zeros, and what is of a cache is looked at again once attention is known
  // (compiler/passes/limit_to_cached.cc).
  Status CheckReduce(ir::NodeId id);
  Status CheckMatMul(ir::NodeId id) const;

  // Whether adding up along dim `axis` counts elements of a mask, which are 0 behind the last real position.
  bool CountsMask(ir::NodeId id, int axis) const { return ZeroBeyond(id, axis); }

  // An error that says `why`, and what people can do; the same with the node it is about.
  Status Refuse(const std::string& why) const;
  Status Named(const Status& status, ir::NodeId id) const;

 protected:
  // Whether what is refused may be right once it is known which input is a mask over positions; its sentence
  // says so.
  bool asks_for_mask_ = false;

  ir::Graph* g_;
  const ir::Graph &second_, &third_;
  const CachePorts& ports_;
  const int64_t length_, rows_, step_;

 private:
  std::optional<Extent> ExtentOf(int64_t a, int64_t b, int64_t c) const;
  Status ReadExtentsOf(ir::NodeId id);
  int ReadsInOrder(ir::NodeId id, int axis) const;
  bool ZeroBeyond(ir::NodeId id, int axis, int depth = 0) const;

  std::vector<std::vector<Extent>> extents_;  // by node, of each of its dims
  std::vector<bool> cached_;                  // by node: some element along positions is of a cache
};

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_GROWTH_H_
