// What the passes ask of a graph: small questions about nodes, answered through views.
//
// All functions are pure and read the graph only. "Uniform" values are read from constants with bytes;
// nothing is ever concluded from synthetic ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "compiler/passes/pass.h"

namespace rondo::passes {

using ir::Builder;

// The node if it is a pointwise node of this op, else null. `id` itself must be the node, not a view of it.
const ir::Node* AsPointwise(const ir::Graph& graph, ir::NodeId id, TapeOp op);

// The one value that every element of `id` (a constant or a view of one) has.
std::optional<double> UniformValue(const ir::Graph& graph, ir::NodeId id);

// If `node` is commutative `op` of something and a uniform constant: the something and the constant.
struct ScalarUse {
  ir::NodeId x = ir::kNoNode;
  double value = 0;
};
std::optional<ScalarUse> WithScalar(const ir::Graph& graph, ir::NodeId id, TapeOp op);

// True if a view node shows its base's elements in order (a reshape); true for nodes that are no views.
bool IsReshape(const ir::Graph& graph, ir::NodeId id);

// Whether the node is a cast between float types, neither of them FP8: that rounds no more than arithmetic.
bool IsCastOfFloats(const ir::Graph& graph, ir::NodeId id);

// Skips reshapes and such casts: the node below them.
ir::NodeId SkipCasts(const ir::Graph& graph, ir::NodeId id);

// Input `i` of the node that `id` shows, shown as `id` shows the node.
ir::NodeId ShownInput(ir::Builder& b, ir::NodeId id, size_t i);

// `id` without the axes along which nothing changes; kNoNode of that.
ir::NodeId ShownOnce(ir::Builder& b, ir::NodeId id);

// The view with the dims along which nothing changes shown once: what is computed from it broadcasts again.
ir::View ShownOnce(ir::View view);

// How many elements in a row along dimension `along` of the view are one and the same element: all, or a
// block of them; 0 if the view does not say.
int64_t BlockAlong(const ir::View& view, int along);

// Two element numbers of the view never meet.
bool IsInjective(const ir::View& view);

// Removes dead nodes and brings the rest into order: how every pass ends.
void Tidy(ir::Graph* graph);

// A Builder that gives what it makes the provenance and annotations of `like`.
ir::Builder BuilderLike(ir::Graph* graph, ir::NodeId like);

// "3 things" or "1 thing".
std::string Count(int64_t n, const char* thing);

}  // namespace rondo::passes
