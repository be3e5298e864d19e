// Conditions under which results are needed.
//
// A value that only one arm of a Select reads is needed only if the Select takes that arm. If its condition
// is one bool for all elements (a branch of an If, a round of a loop that ends early), kernels that compute
// such values test that bool, and do nothing if it has the other value (Part::when). Functions of graphs; no
// state.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::fusion {

// The condition that element `element` of `base`, a tensor of bools, equals `holds`.
struct Condition {
  ir::NodeId base = ir::kNoNode;
  int64_t element = 0;
  bool holds = true;
  bool operator==(const Condition&) const = default;
};
// All must hold. A condition may itself be computed only if those before it hold.
using Conditions = std::vector<Condition>;

// The conditions that are in both, in the order of `a`.
Conditions Common(const Conditions& a, const Conditions& b);

struct Needed {
  Conditions where;
  bool expensive = false;  // expensive enough to be skipped by itself
  bool faults = false;     // an index may be out of range if it is computed without being needed
};

// By node; empty if everything is always needed. `order`: the live nodes, topologically. `where`: the
// conditions under which the graph's outputs are needed. Conditions that save less than `least`
// multiplications are dropped.
//
// A node never gets a condition that depends on it, or that control edges put after it: data uses and strong
// edges hand on what the later node has, and weak edges also what comes before the later node.
// So the graph stays acyclic when each node runs after its conditions.
std::vector<Needed> FindNeeded(ir::Graph* graph, const std::vector<ir::NodeId>& order,
                               const Conditions& where, double least);

// Passes the conditions under which a loop's results are needed to the loop, as inputs (LoopInfo::when).
void PassConditionsToLoops(ir::Graph* graph, double least);

}  // namespace rondo::fusion
