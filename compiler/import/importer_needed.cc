// The nodes that an import needs: those on which the outputs depend, and those with effects or annotations
// that require them.
#include <algorithm>

#include "compiler/import/importer.h"

namespace rondo::importer {
namespace {

// Every name that the nodes read, including those of their subgraphs.
void AddReads(const onnx::NodeProto& node, std::unordered_set<std::string>* names) {
  for (const std::string& name : node.input()) names->insert(name);
  auto add_graph = [&](const onnx::GraphProto& graph) {
    for (const onnx::NodeProto& inner : graph.node()) AddReads(inner, names);
    for (const onnx::ValueInfoProto& output : graph.output()) names->insert(output.name());
  };
  for (const onnx::AttributeProto& a : node.attribute()) {
    if (a.has_g()) add_graph(a.g());
    for (const onnx::GraphProto& g : a.graphs()) add_graph(g);
  }
}

}  // namespace

// Whether the node, its subgraphs or the function it calls contain a custom op with side effects.
bool Importer::HasEffects(const onnx::NodeProto& node, const Frame& frame, int depth) const {
  if (options_.ops == nullptr || depth > kMaxCallDepth) return false;
  if (const OpInfo* info = FindCustom(node, frame)) return (info->op.flags & RONDO_OP_SIDE_EFFECTS) != 0;
  const auto any = [&](const Nodes& nodes, const Frame& of) {
    return std::any_of(nodes.begin(), nodes.end(),
                       [&](const onnx::NodeProto& inner) { return HasEffects(inner, of, depth + 1); });
  };
  if (const onnx::FunctionProto* function = FindFunction(node)) {
    const auto [known, added] = effects_.try_emplace(function, false);
    if (!added) return known->second;
    Frame inner;
    inner.opsets = Opsets(function->opset_import());
    const bool found = any(function->node(), inner);
    return effects_[function] = found;
  }
  return std::any_of(node.attribute().begin(), node.attribute().end(),
                     [&](const onnx::AttributeProto& a) { return a.has_g() && any(a.g().node(), frame); });
}

// By node: whether the names in `wanted` depend on it, or it has effects.
std::vector<bool> Importer::NeededFor(const Nodes& nodes, Names wanted, const Frame& frame) const {
  std::vector<bool> needed(static_cast<size_t>(nodes.size()));
  for (int i = nodes.size(); i-- > 0;) {
    const onnx::NodeProto& node = nodes.Get(i);
    bool need = std::any_of(node.output().begin(), node.output().end(), [&](const std::string& name) {
      return !name.empty() && wanted.count(name) != 0;
    });
    need = need || HasEffects(node, frame, frame.depth) || IsAsserted(node, frame);
    needed[static_cast<size_t>(i)] = need;
    if (need) AddReads(node, &wanted);
  }
  return needed;
}

// NeededFor, plus the nodes that annotations require for those, and so on.
std::vector<bool> Importer::NeededWithOrder(const Nodes& nodes, Names wanted, const Frame& frame) const {
  std::vector<bool> needed = NeededFor(nodes, wanted, frame);
  for (bool more = control_.any(); more;) {
    more = false;
    for (int i = 0; i < nodes.size(); ++i) {
      if (!needed[static_cast<size_t>(i)]) continue;
      const auto said = OrdersOf({nodes.Get(i), NodeName(nodes.Get(i)), ""}, options_.annotations);
      if (said.count("needs") == 0) continue;
      for (int k = 0; k < nodes.size(); ++k) {
        if (needed[static_cast<size_t>(k)] ||
            !ControlEdges::Needs(said, {nodes.Get(k), NodeName(nodes.Get(k)), ""}))
          continue;
        more = true;
        wanted.insert(nodes.Get(k).output().begin(), nodes.Get(k).output().end());
      }
    }
    if (more) needed = NeededFor(nodes, wanted, frame);
  }
  return needed;
}

}  // namespace rondo::importer
