// One-hot updates: `where(arange == position, new, old)`, in all its spellings, writes one position along an
// axis of `old`, or none if the position is out of range. Internal to the passes.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace rondo::passes {

// A selection as a kIndexedWrite over `old`; all inputs already exist, or are views of existing nodes.
struct OneHotUpdate {
  ir::NodeId old = ir::kNoNode, fresh = ir::kNoNode;  // inputs of the selection
  ir::NodeId position = ir::kNoNode;                  // not a view, of some integer type
  ir::View positions;  // a view of it over the selection's shape, with extent 1 along `axis`
  int axis = 0;
  int64_t first = 0;  // the position of element 0 along the axis
};

// No value if `id` is not such a selection, or if its new contents differ along the axis, so that they would
// have to be computed for all positions.
std::optional<OneHotUpdate> OneHotUpdateOf(const ir::Graph& graph, ir::NodeId id);

// Updates, index and attributes of that write.
struct OneHotWrite {
  ir::NodeId updates = ir::kNoNode, index = ir::kNoNode;
  ir::IndexedAttrs attrs;
};
OneHotWrite MakeOneHotWrite(ir::Graph* graph, ir::NodeId id, const OneHotUpdate& update);

}  // namespace rondo::passes
