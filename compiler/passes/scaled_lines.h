// Lines of a picture that is another one times a factor a line: their extremes follow from that one's.
//
// Rounding keeps order, so that of x times s, for one s, the greatest is the greatest of (greatest x) times s
// and (least x) times s, whatever the sign of s: to the bit, as long as all numbers are finite.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::passes {

struct ScaledLines {
  ir::NodeId picture = ir::kNoNode;  // x times s
  std::vector<int> axes;             // of the picture, along which its lines are
};

// If `id` is the extremes of lines as ScaledRanges makes them: whose.
std::optional<ScaledLines> ScaledLinesOf(ir::Graph& graph, ir::NodeId id);

}  // namespace rondo::passes
