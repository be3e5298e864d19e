#include "compiler/shard/conversions.h"

#include <limits>

namespace rondo::shard {
namespace {

constexpr double kOfBoth = 2;  // to hold a share beside the whole: no more than to take it from there
constexpr double kImpossible = std::numeric_limits<double>::infinity();

}  // namespace

std::vector<Conversion> PathTo(Form wanted, const std::vector<Form>& forms, FormSet there) {
  Form split = kWhole;
  bool whole = false;
  for (size_t i = 0; i < forms.size(); ++i) {
    if ((there >> i & 1) == 0) continue;
    if (forms[i] == wanted) return {};
    whole = whole || forms[i] == kWhole;
    if (IsSplit(forms[i]) && split == kWhole) split = forms[i];
  }
  std::vector<Conversion> path;
  if (!whole) path.push_back({IsSplit(split) ? split : kPartial, kWhole});
  if (wanted != kWhole) path.push_back({kWhole, wanted});
  return path;
}

WeightChoice ChooseWeight(const ir::Graph& graph, const Candidates& candidates, const Costs& costs,
                          ir::NodeId id, Form wanted, FormSet base_there) {
  const ir::NodeId base = graph.BaseOf(id);
  const int64_t bytes = BytesOf(graph.node(base));
  const auto has = [&](Form form) {
    if (candidates.IsHeld(base, form)) return true;
    const int index = candidates.IndexOf(base, form);
    return index >= 0 && (base_there >> index & 1) != 0;
  };
  const auto cost = [&](Form form) {
    return has(form) ? 0 : has(kWhole) ? kOfBoth : costs.OfHolding(form, bytes);
  };
  // As it is given, where it is.
  const Form given = candidates.GivenTo(base);
  const auto allowed = [&](Form form) { return given == kFree || given == form; };
  WeightChoice best;
  best.cost = allowed(kWhole) ? cost(kWhole) + costs.OfConversion(kWhole, wanted, 0) : kImpossible;
  if (base == id) {
    if (IsSplit(wanted) && allowed(wanted) && cost(wanted) < best.cost)
      best = {0, wanted, wanted, cost(wanted)};
    return best;
  }
  const std::vector<Rule>& rules = candidates.rules[static_cast<size_t>(id)];
  for (size_t r = 0; r < rules.size(); ++r) {
    const Form from = rules[r].inputs[0];
    if (rules[r].output != wanted || !IsSplit(from) || !allowed(from) || cost(from) >= best.cost) continue;
    best = {static_cast<int>(r), from, wanted, cost(from)};
  }
  return best;
}

}  // namespace rondo::shard
