#include "compiler/shard/candidates.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

#include "compiler/shard/cut_weight.h"
#include "compiler/shard/local_view.h"

namespace rondo::shard {
namespace {

class Spread {
 public:
  Spread(const Graph& graph, const Costs& costs)
      : g_(graph), costs_(costs), devices_(costs.devices()), users_(graph.AllUsers()) {}

  Candidates Run(const StateShardings& state_shardings, const std::vector<Sharding>& given) {
    out_.shardings.resize(static_cast<size_t>(g_.size()));
    out_.rules.resize(static_cast<size_t>(g_.size()));
    for (NodeId id = 0; id < g_.size(); ++id) {
      const Node& node = g_.node(id);
      Shardings(id) = {kWhole};
      if (node.dtype != DType::kBool) Shardings(id).push_back(kPartial);
      Rules(id) = {WholeRule(node)};
      for (const Rule& rule : PartialRules(g_, node)) Rules(id).push_back(rule);
    }
    for (const ir::StatePair& pair : g_.states) {
      const auto input = static_cast<size_t>(pair.input), output = static_cast<size_t>(pair.output);
      twins_[g_.inputs[input].node].push_back(g_.outputs[output].node);
      twins_[g_.outputs[output].node].push_back(g_.inputs[input].node);
      const auto settled = state_shardings.find(StateKey(g_, input));
      if (settled != state_shardings.end()) Keep(g_.inputs[input].node, settled->second);
    }
    for (size_t id = 0; id < given.size(); ++id) {
      if (given[id].is_split()) Keep(static_cast<NodeId>(id), given[id]);
    }
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (g_.node(id).shape.elements() == 0) continue;
      for (const Rule& rule : FirstRules(g_, g_.node(id), costs_)) Add(id, rule);
    }
    while (!new_.empty()) {
      const auto [id, sharding] = new_.front();
      new_.pop_front();
      Learn(id, -1, sharding);
      for (NodeId user : users_[static_cast<size_t>(id)]) {
        const Node& reader = g_.node(user);
        for (size_t slot = 0; slot < reader.inputs.size(); ++slot) {
          if (reader.inputs[slot] == id) Learn(user, static_cast<int>(slot), sharding);
        }
      }
    }
    return std::move(out_);
  }

 private:
  std::vector<Sharding>& Shardings(NodeId id) { return out_.shardings[static_cast<size_t>(id)]; }
  std::vector<Rule>& Rules(NodeId id) { return out_.rules[static_cast<size_t>(id)]; }

  void Learn(NodeId id, int slot, Sharding sharding) {
    for (const Rule& rule : RulesWith(g_, g_.node(id), slot, sharding, devices_)) Add(id, rule);
  }

  // Adds a rule unless one of its shardings cannot be kept.
  void Add(NodeId id, const Rule& rule) {
    const Node& node = g_.node(id);
    if (std::find(Rules(id).begin(), Rules(id).end(), rule) != Rules(id).end()) return;
    if (rule.output == kPartial && out_.IndexOf(id, kPartial) < 0) return;
    if (!CanKeep(id, rule.output)) return;
    for (size_t i = 0; i < rule.inputs.size(); ++i) {
      if (!CanKeep(node.inputs[i], rule.inputs[i]) || !CanBeMade(node.inputs[i], rule.inputs[i])) return;
    }
    Rules(id).push_back(rule);
    Keep(id, rule.output);
    for (size_t i = 0; i < rule.inputs.size(); ++i) Keep(node.inputs[i], rule.inputs[i]);
  }

  // A share of a packed weight must consist of whole blocks. A share read from the whole packed weight would
  // be unpacked in every run.
  bool CanBeMade(NodeId id, Sharding sharding) const {
    const NodeId base = g_.BaseOf(id);
    if (!sharding.is_split() || !g_.IsConstant(base)) return true;
    const ir::ConstantData& data = *g_.node(base).As<ir::ConstantAttrs>().data;
    if (data.packed == nullptr) return true;
    const Sharding held =
        base == id ? sharding
                   : ShardingBehind(g_.ViewOf(id), g_.node(base).shape.elements(), sharding, devices_);
    return held.is_split() && CanCut(data, held, devices_);
  }

  bool CanKeep(NodeId id, Sharding sharding) {
    if (out_.IndexOf(id, sharding) >= 0) return true;
    return sharding.is_split() && Shardings(id).size() < kMostShardings &&
           DimOf(g_.node(id).shape, sharding, devices_).dim >= 0;
  }

  void Keep(NodeId id, Sharding sharding) {
    if (out_.IndexOf(id, sharding) >= 0) return;
    Shardings(id).push_back(sharding);
    new_.push_back({id, sharding});
    const auto twins = twins_.find(id);
    if (twins == twins_.end()) return;
    for (NodeId twin : twins->second) {
      if (CanKeep(twin, sharding)) Keep(twin, sharding);
    }
  }

  const Graph& g_;
  const Costs& costs_;
  const int64_t devices_;
  const ir::Users users_;
  Candidates out_;
  std::unordered_map<NodeId, std::vector<NodeId>> twins_;  // the other ends of states
  std::deque<std::pair<NodeId, Sharding>> new_;
};

}  // namespace

int Candidates::IndexOf(NodeId id, Sharding sharding) const {
  const std::vector<Sharding>& known = shardings[static_cast<size_t>(id)];
  const auto found = std::find(known.begin(), known.end(), sharding);
  return found == known.end() ? -1 : static_cast<int>(found - known.begin());
}

bool Candidates::IsHeld(NodeId id, Sharding sharding) const {
  const int index = held.empty() ? -1 : IndexOf(id, sharding);
  return index >= 0 && (held[static_cast<size_t>(id)] >> index & 1) != 0;
}

void NoteHeld(const Graph& graph, const WeightShardings& weights, Candidates* candidates) {
  if (weights.empty()) return;
  candidates->held.assign(static_cast<size_t>(graph.size()), 0);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!graph.IsConstant(id)) continue;
    const auto known = weights.find(WeightKey(*graph.node(id).As<ir::ConstantAttrs>().data));
    if (known == weights.end()) continue;
    for (Sharding sharding : known->second) {
      const int index = candidates->IndexOf(id, sharding);
      if (index >= 0) candidates->held[static_cast<size_t>(id)] |= static_cast<uint16_t>(1u << index);
    }
  }
}

std::string WeightKey(const ir::ConstantData& data) {
  if (data.name.empty()) return "";
  std::string key = data.name + " " + Name(data.dtype);
  for (int64_t dim : data.shape) key += " " + std::to_string(dim);
  return key;
}

std::string StateKey(const Graph& graph, size_t input) {
  const Node& node = graph.node(graph.inputs[input].node);
  std::string key = graph.inputs[input].name + " " + Name(node.dtype);
  for (int64_t dim : node.shape) key += " " + std::to_string(dim);
  return key;
}

Candidates FindCandidates(const Graph& graph, const Costs& costs, const StateShardings& state_shardings,
                          const std::vector<Sharding>& given) {
  return Spread(graph, costs).Run(state_shardings, given);
}

}  // namespace rondo::shard
