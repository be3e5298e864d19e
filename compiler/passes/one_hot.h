// One-hot updates: `where(arange == position, new, old)` in all its spellings writes one position along an
// axis of `old`, and none where the position is out of range. Internal to the passes.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace rondo::passes {

// A selection as a kIndexedWrite over `old`: the inputs are there in the model, or views of what is.
struct OneHotUpdate {
  ir::NodeId old = ir::kNoNode, fresh = ir::kNoNode;  // inputs of the selection
  ir::NodeId position = ir::kNoNode;                  // a node that is no view, of some integer type
  ir::View positions;  // of it, over the selection's shape with one along `axis`
  int axis = 0;
  int64_t first = 0;  // the position that is element 0 along the axis
};

// None if `id` is no such selection, or its new contents differ along the axis and would have to be computed
// for all positions.
std::optional<OneHotUpdate> OneHotUpdateOf(const ir::Graph& graph, ir::NodeId id);

// The updates and the index of that write, and its attributes.
struct OneHotWrite {
  ir::NodeId updates = ir::kNoNode, index = ir::kNoNode;
  ir::IndexedAttrs attrs;
};
OneHotWrite MakeOneHotWrite(ir::Graph* graph, ir::NodeId id, const OneHotUpdate& update);

}  // namespace rondo::passes
