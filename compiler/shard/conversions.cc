#include "compiler/shard/conversions.h"

#include <limits>

namespace rondo::shard {
namespace {

constexpr double kOfBoth = 2;  // a share held beside the whole costs no more than a slice of it
constexpr double kImpossible = std::numeric_limits<double>::infinity();

}  // namespace

std::vector<Conversion> PathTo(Sharding wanted, const std::vector<Sharding>& shardings, ShardingSet there) {
  Sharding split = kWhole;
  bool whole = false;
  for (size_t i = 0; i < shardings.size(); ++i) {
    if ((there >> i & 1) == 0) continue;
    if (shardings[i] == wanted) return {};
    whole = whole || shardings[i] == kWhole;
    if (shardings[i].is_split() && split == kWhole) split = shardings[i];
  }
  std::vector<Conversion> path;
  if (!whole) path.push_back({split.is_split() ? split : kPartial, kWhole});
  if (wanted != kWhole) path.push_back({kWhole, wanted});
  return path;
}

WeightChoice ChooseWeight(const ir::Graph& graph, const Candidates& candidates, const Costs& costs,
                          ir::NodeId id, Sharding wanted, ShardingSet base_there) {
  const ir::NodeId base = graph.BaseOf(id);
  const int64_t bytes = BytesOf(graph.node(base));
  const auto has = [&](Sharding sharding) {
    if (candidates.IsHeld(base, sharding)) return true;
    const int index = candidates.IndexOf(base, sharding);
    return index >= 0 && (base_there >> index & 1) != 0;
  };
  const auto cost = [&](Sharding sharding) {
    return has(sharding) ? 0 : has(kWhole) ? kOfBoth : costs.OfHolding(sharding, bytes);
  };
  // A given sharding is the only one allowed.
  const Sharding given = candidates.GivenTo(base);
  const auto allowed = [&](Sharding sharding) { return given == kUnknown || given == sharding; };
  WeightChoice best;
  best.cost = allowed(kWhole) ? cost(kWhole) + costs.OfConversion(kWhole, wanted, 0) : kImpossible;
  if (base == id) {
    if (wanted.is_split() && allowed(wanted) && cost(wanted) < best.cost)
      best = {0, wanted, wanted, cost(wanted)};
    return best;
  }
  const std::vector<Rule>& rules = candidates.rules[static_cast<size_t>(id)];
  for (size_t r = 0; r < rules.size(); ++r) {
    const Sharding from = rules[r].inputs[0];
    if (rules[r].output != wanted || !from.is_split() || !allowed(from) || cost(from) >= best.cost) continue;
    best = {static_cast<int>(r), from, wanted, cost(from)};
  }
  return best;
}

}  // namespace rondo::shard
