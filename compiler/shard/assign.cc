#include "compiler/shard/assign.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "compiler/shard/conversions.h"

namespace rondo::shard {
namespace {

// The most and the least search states that are kept after each step, and the work that decides between them.
constexpr size_t kWidestBeam = 512, kNarrowestBeam = 16, kWork = 4 << 20;

// The order of the steps: nodes in the graph's order. States, views and nodes that read only weights come
// just before their first reader. Otherwise the shardings of many biases would fill the search.
class StepOrder {
 public:
  explicit StepOrder(const Graph& graph) : g_(graph), placed_(static_cast<size_t>(graph.size()), false) {}

  std::vector<NodeId> Run() {
    // A state that nothing reads is taken when its new value is made, so that other programs find it dealt
    // out.
    const ir::Users users = g_.AllUsers();
    for (const ir::StatePair& pair : g_.states) {
      const NodeId input = g_.inputs[static_cast<size_t>(pair.input)].node;
      if (users[static_cast<size_t>(input)].empty())
        unread_[g_.outputs[static_cast<size_t>(pair.output)].node].push_back(input);
    }
    for (NodeId id : g_.TopologicalOrder()) {
      const Op op = g_.node(id).op;
      if (op == Op::kView || op == Op::kInput || ReadsWeightsAlone(id)) continue;
      Place(id);
    }
    for (const ir::GraphOutput& output : g_.outputs) Place(output.node);
    return std::move(order_);
  }

 private:
  void Place(NodeId id) {
    const Node& node = g_.node(id);
    if (placed_[static_cast<size_t>(id)] || IsWeight(g_, id)) return;
    for (NodeId in : node.inputs) {
      const Node& input = g_.node(in);
      if (input.op == Op::kView) Place(input.inputs[0]);
      Place(in);
    }
    if (placed_[static_cast<size_t>(id)]) return;
    placed_[static_cast<size_t>(id)] = true;
    const auto found = unread_.find(id);
    if (found != unread_.end()) {
      for (NodeId state : found->second) Place(state);
    }
    order_.push_back(id);
  }

  bool ReadsWeightsAlone(NodeId id) const {
    const Node& node = g_.node(id);
    const std::vector<NodeId>& inputs = node.inputs;
    return !ir::HasEffect(node) && !inputs.empty() &&
           std::all_of(inputs.begin(), inputs.end(), [&](NodeId in) { return IsWeight(g_, in); });
  }

  const Graph& g_;
  std::unordered_map<NodeId, std::vector<NodeId>> unread_;  // states by the node of their new value
  std::vector<bool> placed_;
  std::vector<NodeId> order_;
};

// One way to have computed the graph up to some step.
struct State {
  std::vector<std::pair<NodeId, ShardingSet>> held;  // by node: the shardings in which it exists
  double cost = 0;
  double ahead = 0;  // a lower bound on the cost to come (CostsAhead)
  int last = -1;     // index of the last decision

  ShardingSet Shardings(NodeId id) const {
    const auto at = std::lower_bound(held.begin(), held.end(), std::pair{id, ShardingSet{0}});
    return at != held.end() && at->first == id ? at->second : ShardingSet{0};
  }
  void Add(NodeId id, ShardingSet shardings) {
    const auto at = std::lower_bound(held.begin(), held.end(), std::pair{id, ShardingSet{0}});
    if (at != held.end() && at->first == id) {
      at->second = static_cast<ShardingSet>(at->second | shardings);
    } else {
      held.insert(at, {id, shardings});
    }
  }
  void Drop(NodeId id) {
    const auto at = std::lower_bound(held.begin(), held.end(), std::pair{id, ShardingSet{0}});
    if (at != held.end() && at->first == id) held.erase(at);
  }
};

// The number of parts into which the work is divided: one per device, one for several devices, or 1 if each
// device does all of it.
double Parts(const Rule& rule, int64_t devices) {
  int64_t most = rule.output.is_split() ? rule.output.parts(devices) : 1;
  for (Sharding sharding : rule.inputs)
    most = std::max(most, sharding.is_split() ? sharding.parts(devices) : 1);
  return static_cast<double>(most);
}

struct Decision {
  int before = -1;
  int choice = 0;
};

// For every value and sharding: a lower bound on the cost to come if the value exists in that sharding alone.
// It is the most expensive chain of readers, each with its cheapest rule. It shows the search early that a
// value must be gathered in the end, even if it is cheap to continue without.
class CostsAhead {
 public:
  CostsAhead(const Graph& graph, const Candidates& candidates, const Costs& costs,
             const std::vector<NodeId>& order)
      : g_(graph), c_(candidates), costs_(costs), order_(order), users_(graph.AllUsers()) {}

  std::vector<std::vector<double>> Run() {
    for (const auto& shardings : c_.shardings) ahead_.emplace_back(shardings.size(), 0.0);
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      if (PairOfOutput(g_, o) >= 0) continue;
      const NodeId id = g_.outputs[o].node;
      AtLeast(id, [&](Sharding sharding) { return Conversion(id, sharding, kWhole); });
    }
    for (size_t at = order_.size(); at-- > 0;) {
      const Node& node = g_.node(order_[at]);
      for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
        if (IsWeight(g_, node.inputs[slot])) continue;
        AtLeast(node.inputs[slot], [&](Sharding sharding) { return Through(node, slot, sharding); });
      }
    }
    return std::move(ahead_);
  }

 private:
  template <typename F>
  void AtLeast(NodeId id, F bound) {
    const std::vector<Sharding>& shardings = c_.shardings[static_cast<size_t>(id)];
    for (size_t f = 0; f < shardings.size(); ++f) {
      double& ahead = ahead_[static_cast<size_t>(id)][f];
      ahead = std::max(ahead, bound(shardings[f]));
    }
  }

  double Conversion(NodeId id, Sharding from, Sharding to) const {
    double cost = 0;
    for (const shard::Conversion& c : PathTo(to, {from}, 1))
      cost += costs_.OfConversion(c.from, c.to, BytesOf(g_.node(id)));
    return cost;
  }

  // The cost of the cheapest rule of `node` if input `slot` is in `sharding`.
  double Through(const Node& node, size_t slot, Sharding sharding) const {
    double least = -1;
    const double work = node.op == Op::kView ? 0 : Costs::OfWork(g_, node);
    for (const Rule& rule : c_.rules[static_cast<size_t>(node.id)]) {
      const int output = c_.IndexOf(node.id, rule.output);
      if (output < 0) continue;
      double cost = Conversion(node.inputs[slot], sharding, rule.inputs[slot]) +
                    ahead_[static_cast<size_t>(node.id)][static_cast<size_t>(output)];
      cost += work / Parts(rule, costs_.devices());
      for (size_t i = 0; i < node.inputs.size(); ++i) cost += OwnWeight(node.inputs[i], rule.inputs[i]);
      if (least < 0 || cost < least) least = cost;
    }
    return std::max(least, 0.0);
  }

  // The cost of a weight with no other readers.
  double OwnWeight(NodeId id, Sharding sharding) const {
    const NodeId base = g_.BaseOf(id);
    if (!IsWeight(g_, id) || users_[static_cast<size_t>(base)].size() > 1) return 0;
    if (base != id && users_[static_cast<size_t>(id)].size() > 1) return 0;
    return ChooseWeight(g_, c_, costs_, id, sharding, 0).cost;
  }

  const Graph& g_;
  const Candidates& c_;
  const Costs& costs_;
  const std::vector<NodeId>& order_;
  const ir::Users users_;
  std::vector<std::vector<double>> ahead_;
};

class Search {
 public:
  Search(const Graph& graph, const Candidates& candidates, const Costs& costs,
         const StateShardings& state_shardings)
      : g_(graph),
        c_(candidates),
        costs_(costs),
        order_(StepOrder(graph).Run()),
        beam_(std::clamp(kWork / (order_.size() + 1), kNarrowestBeam, kWidestBeam)) {
    sharding_of_state_.assign(g_.states.size(), kUnknown);
    for (size_t p = 0; p < g_.states.size(); ++p) {
      const auto known = state_shardings.find(StateKey(g_, static_cast<size_t>(g_.states[p].input)));
      if (known != state_shardings.end()) sharding_of_state_[p] = known->second;
    }
    FindOutputs();
    FindLastUses();
    ahead_ = CostsAhead(g_, c_, costs_, order_).Run();
  }

  Assignment Run() {
    std::vector<State> beam(1);
    for (size_t at = 0; at < order_.size(); ++at) {
      std::vector<State> next;
      const int choices = NumChoices(order_[at]);
      for (const State& state : beam) {
        for (int choice = 0; choice < choices; ++choice) {
          State after = state;
          if (!Take(at, choice, &after)) continue;
          decisions_.push_back({state.last, choice});
          after.last = static_cast<int>(decisions_.size()) - 1;
          next.push_back(std::move(after));
        }
      }
      beam = Best(std::move(next));
    }
    Assignment out;
    out.cost = beam[0].cost;
    for (NodeId id : order_) out.steps.push_back({id, 0});
    int last = beam[0].last;
    for (size_t at = order_.size(); at-- > 0; last = decisions_[static_cast<size_t>(last)].before)
      out.steps[at].choice = decisions_[static_cast<size_t>(last)].choice;
    return out;
  }

 private:
  const std::vector<Sharding>& ShardingsOf(NodeId id) const { return c_.shardings[static_cast<size_t>(id)]; }
  const std::vector<Rule>& RulesOf(NodeId id) const { return c_.rules[static_cast<size_t>(id)]; }
  ShardingSet BitOf(NodeId id, Sharding sharding) const {
    return static_cast<ShardingSet>(1u << c_.IndexOf(id, sharding));
  }

  void FindOutputs() {
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      outputs_[g_.outputs[o].node].push_back(PairOfOutput(g_, o));
    }
  }

  // Finds the step after which each value is no longer needed.
  void FindLastUses() {
    std::vector<NodeId> last_reader(static_cast<size_t>(g_.size()), ir::kNoNode);
    std::vector<size_t> last(static_cast<size_t>(g_.size()), 0);
    std::vector<bool> used(static_cast<size_t>(g_.size()), false);
    const auto use = [&](NodeId id, size_t at) {
      last[static_cast<size_t>(id)] = at;
      used[static_cast<size_t>(id)] = true;
    };
    for (size_t at = 0; at < order_.size(); ++at) {
      const NodeId id = order_[at];
      use(id, at);
      for (NodeId in : g_.node(id).inputs) {
        use(in, at);
        if (IsWeight(g_, in)) use(g_.BaseOf(in), at);
      }
      const auto found = outputs_.find(id);
      if (found == outputs_.end()) continue;
      for (int pair : found->second) {
        if (pair >= 0) use(InputOf(pair), at);
      }
    }
    dies_.resize(order_.size());
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (used[static_cast<size_t>(id)]) dies_[last[static_cast<size_t>(id)]].push_back(id);
    }
  }

  NodeId InputOf(int pair) const {
    return g_.inputs[static_cast<size_t>(g_.states[static_cast<size_t>(pair)].input)].node;
  }

  int NumChoices(NodeId id) const {
    switch (g_.node(id).op) {
      case Op::kInput: return static_cast<int>(ShardingsOf(id).size());
      case Op::kView: return 1 + static_cast<int>(RulesOf(id).size());
      default: return static_cast<int>(RulesOf(id).size());
    }
  }

  // A key into State::held, for the sharding in which a model's state was taken.
  NodeId ChoiceOf(int pair) const { return g_.size() + pair; }
  // The sharding of a state. A state that nothing reads is whole, unless another program has settled it.
  Sharding StateSharding(int pair, const State& state) const {
    const std::vector<Sharding>& shardings = ShardingsOf(InputOf(pair));
    for (size_t f = 0; f < shardings.size(); ++f) {
      if (state.Shardings(ChoiceOf(pair)) == 1u << f) return shardings[f];
    }
    const Sharding known = sharding_of_state_[static_cast<size_t>(pair)];
    return known == kUnknown ? kWhole : known;
  }

  // False if the choice is impossible, or no better than another.
  bool Take(size_t at, int choice, State* state) {
    const NodeId id = order_[at];
    bool good = true;
    switch (g_.node(id).op) {
      case Op::kInput: good = TakeInput(id, choice, state); break;
      case Op::kView: good = TakeView(id, choice, state); break;
      default: TakeNode(id, choice, state);
    }
    if (!good || !BeAsGiven(id, state)) return false;
    const auto found = outputs_.find(id);
    if (found != outputs_.end()) {
      for (int pair : found->second) {
        Sharding wanted = kWhole;
        if (pair >= 0) {
          wanted = StateSharding(pair, *state);
          state->Drop(ChoiceOf(pair));
        }
        if (!Obtain(id, wanted, state)) return false;
      }
    }
    for (NodeId dead : dies_[at]) state->Drop(dead);
    state->ahead = 0;
    for (const auto& [held, shardings] : state->held)
      state->ahead = std::max(state->ahead, Ahead(held, shardings));
    return true;
  }

  // A value whose sharding is given exists in that sharding alone. False if it is a state that was taken in
  // another one.
  bool BeAsGiven(NodeId id, State* state) const {
    const Sharding given = c_.GivenTo(id);
    if (given == kUnknown) return true;
    const ShardingSet bit = BitOf(id, given);
    if (g_.node(id).op == Op::kInput && IsState(id)) return state->Shardings(id) == bit;
    if (!Obtain(id, given, state)) return false;
    state->Drop(id);
    state->Add(id, bit);
    return true;
  }

  bool IsState(NodeId id) const {
    return PairOfInput(g_, static_cast<size_t>(g_.node(id).As<ir::InputAttrs>().index)) >= 0;
  }

  // The cost to come of the cheapest of a value's shardings.
  double Ahead(NodeId id, ShardingSet shardings) const {
    if (id >= g_.size() || IsWeight(g_, id)) return 0;
    const std::vector<double>& by_sharding = ahead_[static_cast<size_t>(id)];
    double least = -1;
    for (size_t f = 0; f < by_sharding.size(); ++f) {
      if ((shardings >> f & 1) != 0 && (least < 0 || by_sharding[f] < least)) least = by_sharding[f];
    }
    return std::max(least, 0.0);
  }

  bool TakeInput(NodeId id, int choice, State* state) {
    const Sharding sharding = ShardingsOf(id)[static_cast<size_t>(choice)];
    const auto input = static_cast<size_t>(g_.node(id).As<ir::InputAttrs>().index);
    const int pair = PairOfInput(g_, input);
    if (sharding == kPartial || (pair < 0 && sharding != kWhole)) return false;
    if (pair >= 0) {
      const Sharding known = sharding_of_state_[static_cast<size_t>(pair)];
      if (known != kUnknown && known != sharding) return false;
      state->cost += costs_.OfHolding(sharding, BytesOf(g_.node(id)));
      state->Add(ChoiceOf(pair), static_cast<ShardingSet>(1u << choice));
    }
    state->Add(id, BitOf(id, sharding));
    return true;
  }

  // Takes the view in every sharding that follows from those of its base. A choice of a rule first converts
  // the base to the rule's sharding.
  bool TakeView(NodeId id, int choice, State* state) {
    const NodeId base = g_.node(id).inputs[0];
    if (choice > 0) {
      const Sharding from = RulesOf(id)[static_cast<size_t>(choice - 1)].inputs[0];
      if ((state->Shardings(base) & BitOf(base, from)) != 0) return false;
      if (!Obtain(base, from, state)) return false;
    }
    ShardingSet shown = 0;
    for (const Rule& rule : RulesOf(id)) {
      const int from = c_.IndexOf(base, rule.inputs[0]), to = c_.IndexOf(id, rule.output);
      if (from >= 0 && to >= 0 && (state->Shardings(base) >> from & 1) != 0)
        shown = static_cast<ShardingSet>(shown | 1u << to);
    }
    if (shown == 0) return false;
    state->Add(id, shown);
    return true;
  }

  void TakeNode(NodeId id, int choice, State* state) {
    const Node& node = g_.node(id);
    const Rule& rule = RulesOf(id)[static_cast<size_t>(choice)];
    for (size_t i = 0; i < node.inputs.size(); ++i) Obtain(node.inputs[i], rule.inputs[i], state);
    const double work = Costs::OfWork(g_, node);
    state->cost += work / Parts(rule, costs_.devices());
    state->Add(id, BitOf(id, rule.output));
  }

  bool Obtain(NodeId id, Sharding wanted, State* state) const {
    const int index = c_.IndexOf(id, wanted);
    if (index < 0) return false;
    if (IsWeight(g_, id)) {
      if ((state->Shardings(id) >> index & 1) != 0) return true;
      const NodeId base = g_.BaseOf(id);
      const WeightChoice choice = ChooseWeight(g_, c_, costs_, id, wanted, state->Shardings(base));
      state->cost += choice.cost;
      state->Add(base, BitOf(base, choice.base));
      if (base != id) state->Add(id, BitOf(id, wanted));
      return true;
    }
    const ShardingSet there = state->Shardings(id);
    for (const Conversion& c : PathTo(wanted, ShardingsOf(id), there)) {
      state->cost += costs_.OfConversion(c.from, c.to, BytesOf(g_.node(id)));
      state->Add(id, BitOf(id, c.to));
    }
    return true;
  }

  // Of search states that hold the same, keeps the cheapest; of those, the best few.
  std::vector<State> Best(std::vector<State> states) const {
    std::stable_sort(states.begin(), states.end(),
                     [](const State& a, const State& b) { return a.cost + a.ahead < b.cost + b.ahead; });
    std::vector<State> best;
    std::unordered_map<uint64_t, std::vector<size_t>> known;
    for (State& state : states) {
      uint64_t hash = 0;
      for (const auto& [id, shardings] : state.held) {
        hash = (hash ^ (static_cast<uint64_t>(id) << 16 | shardings)) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
      }
      std::vector<size_t>& same = known[hash];
      const bool seen =
          std::any_of(same.begin(), same.end(), [&](size_t b) { return best[b].held == state.held; });
      if (seen) continue;
      same.push_back(best.size());
      best.push_back(std::move(state));
      if (best.size() == beam_) break;
    }
    return best;
  }

  const Graph& g_;
  const Candidates& c_;
  const Costs& costs_;
  const std::vector<NodeId> order_;
  const size_t beam_;
  std::vector<Sharding> sharding_of_state_;               // by pair, as settled by other programs
  std::unordered_map<NodeId, std::vector<int>> outputs_;  // by node: the state pairs of its outputs, or -1
  std::vector<std::vector<NodeId>> dies_;                 // values no longer needed after the step
  std::vector<std::vector<double>> ahead_;                // CostsAhead
  std::deque<Decision> decisions_;
};

}  // namespace

Assignment Assign(const Graph& graph, const Candidates& candidates, const Costs& costs,
                  const StateShardings& state_shardings) {
  return Search(graph, candidates, costs, state_shardings).Run();
}

int PairOfInput(const Graph& graph, size_t input) {
  for (size_t p = 0; p < graph.states.size(); ++p) {
    if (static_cast<size_t>(graph.states[p].input) == input) return static_cast<int>(p);
  }
  return -1;
}

int PairOfOutput(const Graph& graph, size_t output) {
  for (size_t p = 0; p < graph.states.size(); ++p) {
    if (static_cast<size_t>(graph.states[p].output) == output) return static_cast<int>(p);
  }
  return -1;
}

}  // namespace rondo::shard
