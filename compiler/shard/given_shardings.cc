#include "compiler/shard/given_shardings.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "compiler/shard/conversions.h"
#include "compiler/shard/describe.h"

namespace rondo::shard {
namespace {

const std::string& ValueName(const Node& node) {
  return node.op == ir::Op::kConstant ? node.As<ir::ConstantAttrs>().data->name : node.name;
}

// The sharding that a hint asks for; `why` says why there is none.
Sharding ShardingOf(const ShareHint& hint, const Node& node, int64_t devices, std::string* why) {
  if (hint.parts == 1) return kWhole;
  if (hint.parts * hint.copies != devices) {
    *why =
        "it is for " + std::to_string(hint.parts * hint.copies) + " devices, not " + std::to_string(devices);
  } else if (hint.elements != node.shape.elements()) {
    *why = "of it is left what has another size";
  } else if (DimOf(node.shape, Sharding::Split(hint.run, hint.copies), devices).dim < 0) {
    *why = "its shares have no shape of their own";
  } else {
    return Sharding::Split(hint.run, hint.copies);
  }
  return kUnknown;
}

void LeaveOut(const Node& node, const std::string& who, const std::string& why, Given* given) {
  given->not_followed += "\nnot followed: " + who + ", \"" + ValueName(node) + "\": " + why;
}

}  // namespace

Given GivenShardings(const Graph& graph, const DeviceHints& hints, int64_t devices,
                     const StateShardings& states) {
  Given given;
  given.shardings.assign(static_cast<size_t>(graph.size()), kUnknown);
  given.nodes.resize(static_cast<size_t>(graph.size()));
  std::unordered_map<std::string, const ShareHint*> by_name;
  for (const ShareHint& hint : hints.shares) by_name.emplace(hint.value, &hint);
  if (by_name.empty()) return given;
  given.configuration = hints.configuration;
  given.said = hints.shares.size();
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const auto found = by_name.find(ValueName(node));
    if (node.dead || found == by_name.end()) continue;
    std::string why;
    const auto at = static_cast<size_t>(id);
    given.shardings[at] = ShardingOf(*found->second, node, devices, &why);
    given.nodes[at] = found->second->node;
    if (node.op == ir::Op::kInput) {
      const auto settled = states.find(StateKey(graph, static_cast<size_t>(node.As<ir::InputAttrs>().index)));
      if (settled != states.end() && settled->second != given.shardings[at]) {
        given.shardings[at] = kUnknown;
        why = "a program before this one has dealt the state out otherwise";
      }
    }
    given.followed += given.shardings[at] != kUnknown;
    if (!why.empty()) LeaveOut(node, given.nodes[at], why, &given);
  }
  return given;
}

std::string Given::Text() const {
  if (said == 0) return "";
  return "\nthe model's configuration \"" + configuration + "\": of " + std::to_string(said) +
         " values that it deals out, " + std::to_string(followed) + " are dealt out so here" + not_followed;
}

bool FollowGiven(const Graph& graph, const Costs& costs, Given* given, Candidates* candidates) {
  candidates->given = given->shardings;
  bool all = true;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (IsWeight(graph, id)) continue;
    std::vector<Rule>& rules = candidates->rules[static_cast<size_t>(id)];
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const NodeId in = node.inputs[slot], base = graph.BaseOf(in);
      if (!IsWeight(graph, in) || candidates->GivenTo(base) == kUnknown) continue;
      std::vector<Rule> left = rules;
      std::erase_if(left, [&](const Rule& rule) {
        return std::isinf(ChooseWeight(graph, *candidates, costs, in, rule.inputs[slot], 0).cost);
      });
      const auto at = static_cast<size_t>(base);
      if (!left.empty()) {
        rules = std::move(left);
      } else if (given->shardings[at] != kUnknown) {
        given->shardings[at] = kUnknown;
        --given->followed;
        LeaveOut(graph.node(base), given->nodes[at], SourceOf(node) + " cannot be computed in parts of it",
                 given);
        all = false;
      }
    }
  }
  return all;
}

}  // namespace rondo::shard
