// The reference evaluator: computes every IR op by plain loops. Used to fold constants, and as the oracle of
// tests.
//
// Pure functions; thread-safe. Scalar semantics are those of core/scalar.h, in the precision of the dtype
// (f16 and bf16 compute in f32 and round once per node).
#pragma once

#include <memory>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::ir {

using Values = std::vector<std::shared_ptr<const ConstantData>>;

// The value of one node, given those of its inputs (synthetic ones are generated). Errors: an index out of
// range.
Result<std::shared_ptr<const ConstantData>> EvaluateNode(const Node& node, const Values& inputs);

// Takes the cost of evaluating a node, including `bytes` of result, from the graph's folding budget; false if
// too little is left. `node` need not be in the graph; its inputs are.
bool SpendOnFolding(const Graph& graph, const Node& node, int64_t bytes);

// All outputs of the graph, given its inputs in order.
Result<Values> EvaluateGraph(const Graph& graph, const Values& inputs);

}  // namespace rondo::ir
