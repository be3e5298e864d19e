// The reference evaluator: what every IR op means, by plain loops. Used to fold constants and as the oracle
// of tests.
//
// Pure functions; thread-safe. Scalar semantics are core/scalar.h's, in the precision the dtype says (f16 and
// bf16 compute in f32 and round once per node).
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

// Takes what EvaluateNode needs for it from the graph's folding budget, `bytes` of result included; false if
// that is not left. `node` need not be in the graph; its inputs are.
bool SpendOnFolding(const Graph& graph, const Node& node, int64_t bytes);

// All outputs of the graph, given its inputs in order.
Result<Values> EvaluateGraph(const Graph& graph, const Values& inputs);

}  // namespace rondo::ir
