// Conditions: where results are needed.
//
// What only one arm of a Select reads is needed where the Select takes that arm. If its condition is one bool
// for all elements (a branch of an If, a round of a loop that data end), kernels that compute such results
// look at that bool and do nothing where it is not as it must be (Part::when). Functions of graphs; no state.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::fusion {

// Element `element` of `base`, a tensor of bools, is `holds`.
struct Condition {
  ir::NodeId base = ir::kNoNode;
  int64_t element = 0;
  bool holds = true;
  bool operator==(const Condition&) const = default;
};
// All of them. What one is computed from may be needed only where those before it hold.
using Conditions = std::vector<Condition>;

// Those that are in both, in the order of `a`.
Conditions Common(const Conditions& a, const Conditions& b);

struct Needed {
  Conditions where;
  bool expensive = false;  // worth skipping by itself
  bool faults = false;     // an index may be out of range where it is computed although it is not needed
};

// By node; empty if everything is needed always. `order`: of the live nodes, topological. `where`: what the
// graph's outputs are needed under. Conditions that save less than `least` multiplications are left out.
//
// A node is never needed under a condition that depends on it, nor under one that control edges put after it:
// they count as uses. So the graph stays acyclic when each node runs after its conditions.
std::vector<Needed> FindNeeded(ir::Graph* graph, const std::vector<ir::NodeId>& order,
                               const Conditions& where, double least);

// Gives loops whose results are needed under conditions those as inputs (LoopInfo::when).
void PassConditionsToLoops(ir::Graph* graph, double least);

}  // namespace rondo::fusion
