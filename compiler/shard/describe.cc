#include "compiler/shard/describe.h"

#include <cstdio>
#include <set>

#include "compiler/ir/loop.h"
#include "compiler/shard/costs.h"

namespace rondo::shard {

std::string BytesText(int64_t bytes) {
  char text[32];
  if (bytes < 10000) return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
  std::snprintf(text, sizeof(text), bytes < 10'000'000 ? "%.1f kB" : "%.1f MB",
                static_cast<double>(bytes) / (bytes < 10'000'000 ? 1e3 : 1e6));
  return text;
}

std::string NameOf(const Node& node) {
  if (!node.name.empty()) return node.name;
  return node.sources.empty() ? "a constant" : node.sources[0];
}

std::string SourceOf(const Node& node) {
  return node.sources.empty() ? "node " + std::to_string(node.id) : node.sources[0];
}

namespace {

// Bytes of weights that are not in `known`, including those in loops.
int64_t WeightsOf(const Graph& graph, std::set<const ir::ConstantData*>* known) {
  int64_t bytes = 0;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.dead) continue;
    if (node.op == ir::Op::kLoop) bytes += WeightsOf(node.As<ir::LoopAttrs>().info->body, known);
    if (node.op == ir::Op::kConstant && known->insert(node.As<ir::ConstantAttrs>().data.get()).second)
      bytes += BytesOf(node);
  }
  return bytes;
}

}  // namespace

Held HeldBy(const Graph& graph) {
  Held held;
  std::set<const ir::ConstantData*> known;
  held.weights = WeightsOf(graph, &known);
  for (const ir::StatePair& pair : graph.states)
    held.states += BytesOf(graph.node(graph.inputs[static_cast<size_t>(pair.input)].node));
  return held;
}

}  // namespace rondo::shard
