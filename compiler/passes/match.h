// Matching helpers for passes: small questions about nodes, answered through views.
//
// All functions are pure and only read the graph. "Uniform" values are read from constants with bytes;
// synthetic constants never influence the result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/pass.h"

namespace rondo::passes {

using ir::Builder;

// The node if it is a pointwise node of this op, otherwise null. `id` must be the node itself, not a view of
// it.
const ir::Node* AsPointwise(const ir::Graph& graph, ir::NodeId id, TapeOp op);

// The single value of all elements of `id` (a constant or a view of one).
std::optional<double> UniformValue(const ir::Graph& graph, ir::NodeId id);

// For a commutative `op` of a node and a uniform constant: both.
struct ScalarUse {
  ir::NodeId x = ir::kNoNode;
  double value = 0;
};
std::optional<ScalarUse> WithScalar(const ir::Graph& graph, ir::NodeId id, TapeOp op);

// True if a view node shows its base's elements in order (a reshape); also for nodes that are not views.
bool IsReshape(const ir::Graph& graph, ir::NodeId id);

// Whether the node casts between float types other than FP8, and so rounds no more than arithmetic does.
bool IsCastOfFloats(const ir::Graph& graph, ir::NodeId id);

// The node below reshapes and such casts.
ir::NodeId SkipCasts(const ir::Graph& graph, ir::NodeId id);

// Input `i` of the node that `id` shows, seen through the view of `id`.
ir::NodeId ShownInput(ir::Builder& b, ir::NodeId id, size_t i);

// `id` without its repeated axes; kNoNode stays kNoNode.
ir::NodeId ShownOnce(ir::Builder& b, ir::NodeId id);

// The view with repeated dims reduced to 1, so that results computed from it broadcast again.
ir::View ShownOnce(ir::View view);

// How many consecutive elements along dimension `along` of the view are the same element: all, or a block; 0
// if the view does not show it.
int64_t BlockAlong(const ir::View& view, int along);

// Whether all indices of the view show different elements.
bool IsInjective(const ir::View& view);

// Removes dead nodes and sorts the rest; every pass ends with it.
void Tidy(ir::Graph* graph);

// A Builder whose nodes get the provenance and annotations of `like`.
ir::Builder BuilderLike(ir::Graph* graph, ir::NodeId like);

// Whether `is(reader, read)` holds for all nodes that read `id`, themselves or through views, where they read
// the node `read`; and neither `id` nor one of the views is an output.
template <typename Is>
bool AllReaders(ir::Graph* graph, ir::NodeId id, const Is& is) {
  std::vector<ir::NodeId> shown = {id};
  while (!shown.empty()) {
    const ir::NodeId read = shown.back();
    shown.pop_back();
    if (graph->IsOutput(read)) return false;
    for (ir::NodeId user : graph->UsersOf(read)) {
      const ir::Node& reader = graph->node(user);
      if (reader.op == ir::Op::kView) {
        shown.push_back(user);
      } else if (!is(reader, read)) {
        return false;
      }
    }
  }
  return true;
}

// "3 things" or "1 thing".
std::string Count(int64_t n, const char* thing);

}  // namespace rondo::passes
