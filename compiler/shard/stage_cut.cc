#include "compiler/shard/stage_cut.h"

#include <algorithm>

#include "compiler/shard/candidates.h"
#include "compiler/shard/demand_order.h"
#include "compiler/shard/describe.h"
#include "compiler/shard/stage_load.h"

namespace rondo::shard {
namespace {

constexpr size_t kMostCuts = 400;  // places that the search considers

// The possible cuts: at most kMostCuts places. Of neighbouring places, the one with the least to send.
std::vector<size_t> PlacesToCut(const StageLoads& loads, size_t nodes) {
  std::vector<size_t> all;
  for (size_t cut = 1; cut < nodes; ++cut) {
    if (!loads.Parts(cut)) all.push_back(cut);
  }
  if (all.size() <= kMostCuts) return all;
  std::vector<size_t> some;
  for (size_t k = 0; k < kMostCuts; ++k) {
    const size_t first = all.size() * k / kMostCuts, end = all.size() * (k + 1) / kMostCuts;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    some.push_back(*std::min_element(begin, all.begin() + static_cast<std::ptrdiff_t>(end),
                                     [&](size_t a, size_t b) { return loads.Sent(a) < loads.Sent(b); }));
  }
  return some;
}

// The best way to cut the nodes before a place into some number of stages.
struct Way {
  bool known = false;
  double peak = 0, sent = 0, squares = 0;
  size_t from = 0;  // the previous cut

  bool Beats(const Way& other) const {
    if (!known || !other.known) return known;
    const double mine = peak + sent, its = other.peak + other.sent;
    return mine != its ? mine < its : squares < other.squares;
  }
};

class Search {
 public:
  Search(const Graph& graph, const StageOrder& order, const StageLoads& loads,
         const std::vector<StateRows>& states, int stages, const StagePlaces& places)
      : g_(graph), loads_(loads), stages_(static_cast<size_t>(stages)) {
    places_ = PlacesToCut(loads, order.nodes.size());
    places_.insert(places_.begin(), 0);
    places_.push_back(order.nodes.size());
    FindSettled(order, states, places);
  }

  size_t choices() const { return places_.size() - 2; }

  // The cuts, without both ends of the order; none if there is no way.
  std::vector<size_t> Run() {
    const size_t count = places_.size();
    std::vector<std::vector<Way>> ways(stages_ + 1, std::vector<Way>(count));
    ways[0][0].known = true;
    for (size_t first = 0; first + 1 < count; ++first) {
      for (size_t end = first + 1; end < count; ++end) {
        const double load = loads_.Of(places_[first], places_[end]);
        for (size_t s = 0; s < stages_; ++s) {
          const Way way = Extend(ways[s][first], s, first, end, load);
          if (way.Beats(ways[s + 1][end])) ways[s + 1][end] = way;
        }
      }
    }
    std::vector<size_t> cuts;
    if (!ways[stages_][count - 1].known) return cuts;
    size_t at = count - 1;
    for (size_t s = stages_; s > 1; --s) {
      at = ways[s][at].from;
      cuts.push_back(places_[at]);
    }
    std::reverse(cuts.begin(), cuts.end());
    return cuts;
  }

 private:
  Way Extend(const Way& before, size_t stage, size_t first, size_t end, double load) const {
    Way way;
    if (!before.known || Elsewhere(stage, first, end)) return way;
    const double sent = first == 0 ? 0 : loads_.Sent(places_[first]);
    way.known = true;
    way.peak = std::max(before.peak, load);
    way.sent = before.sent + sent + Misplaced(stage, first, end);
    way.squares = before.squares + load * load;
    way.from = first;
    return way;
  }

  // Whether some of the nodes touch rows that another stage holds.
  bool Elsewhere(size_t stage, size_t first, size_t end) const {
    if (settled_.empty()) return false;
    const auto count = [&](const std::vector<int>& sums) { return sums[end] - sums[first]; };
    return count(settled_[stage]) != count(settled_.back());
  }
  double Misplaced(size_t stage, size_t first, size_t end) const {
    if (settled_.empty()) return 0;
    return misplaced_[stage][end] - misplaced_[stage][first];
  }

  // Sums up to each place: nodes that touch rows settled on each stage, and on any; and bytes of weights that
  // only other stages hold.
  void FindSettled(const StageOrder& order, const std::vector<StateRows>& states, const StagePlaces& places) {
    if (places.rows.empty() && places.weights.empty()) return;
    std::vector<std::vector<int>> touched(stages_ + 1, std::vector<int>(order.nodes.size() + 1, 0));
    for (size_t i = 0; i < states.size(); ++i) {
      const auto known = places.rows.find(StateKey(g_, static_cast<size_t>(g_.states[i].input)));
      if (known == places.rows.end()) continue;
      for (const auto& [node, rows] : states[i].touches) {
        const int at = order.position[static_cast<size_t>(node)];
        if (at < 0 || rows.first >= rows.end) continue;
        ++touched[static_cast<size_t>(known->second[static_cast<size_t>(rows.first)])]
                 [static_cast<size_t>(at) + 1];
        ++touched[stages_][static_cast<size_t>(at) + 1];
      }
    }
    std::vector<std::vector<double>> apart(stages_, std::vector<double>(order.nodes.size() + 1, 0));
    for (size_t at = 0; at < order.nodes.size(); ++at) {
      for (NodeId weight : loads_.weights()[at]) {
        const auto known = places.weights.find(WeightKey(*g_.node(weight).As<ir::ConstantAttrs>().data));
        for (size_t s = 0; known != places.weights.end() && s < stages_; ++s) {
          if (known->second.count(static_cast<int>(s)) == 0)
            apart[s][at + 1] += static_cast<double>(BytesOf(g_.node(weight)));
        }
      }
    }
    settled_.resize(stages_ + 1);
    misplaced_.resize(stages_);
    for (size_t s = 0; s <= stages_; ++s) settled_[s] = AtPlaces(touched[s]);
    for (size_t s = 0; s < stages_; ++s) misplaced_[s] = AtPlaces(apart[s]);
  }

  template <typename T>
  std::vector<T> AtPlaces(const std::vector<T>& each) const {
    std::vector<T> sums;
    T sum = 0;
    size_t at = 0;
    for (size_t place : places_) {
      for (; at <= place; ++at) sum += each[at];
      sums.push_back(sum);
    }
    return sums;
  }

  const Graph& g_;
  const StageLoads& loads_;
  const size_t stages_;
  std::vector<size_t> places_;             // positions, including both ends of the order
  std::vector<std::vector<int>> settled_;  // by stage, then any; by place; empty if nothing is settled
  std::vector<std::vector<double>> misplaced_;
};

// The stage of every row. Rows that nothing touches go with their neighbours.
std::vector<int> RowStages(const StateRows& state, const StageOrder& order,
                           const std::vector<int>& stage_of) {
  std::vector<int> stages;
  for (const RowSpan& span : RowSpans(state, order.position)) {
    const int before = stages.empty() ? kNoStage : stages.back();
    stages.push_back(span.first < 0
                         ? before
                         : stage_of[static_cast<size_t>(order.nodes[static_cast<size_t>(span.first)])]);
  }
  for (size_t row = stages.size(); row-- > 0;) {
    if (stages[row] == kNoStage) stages[row] = row + 1 < stages.size() ? stages[row + 1] : 0;
  }
  return stages;
}

Status NoWay(const Graph& graph, const StageOrder& order, const std::vector<StateRows>& states, int stages,
             size_t choices, const StagePlaces& places) {
  std::string text = "its " + std::to_string(order.nodes.size()) + " steps can be cut at " +
                     std::to_string(choices) + " places, too few for " + std::to_string(stages) + " stages";
  // Finds the state that spans the most steps.
  int widest = 0;
  for (size_t i = 0; i < states.size(); ++i) {
    for (const RowSpan& span : RowSpans(states[i], order.position)) {
      if (span.first < 0 || span.last - span.first <= widest) continue;
      widest = span.last - span.first;
      text = "state \"" + graph.inputs[static_cast<size_t>(graph.states[i].input)].name + "\" is used from " +
             SourceOf(graph.node(order.nodes[static_cast<size_t>(span.first)])) + " to " +
             SourceOf(graph.node(order.nodes[static_cast<size_t>(span.last)])) +
             ", and must be on one stage: " + std::to_string(choices) + " of " +
             std::to_string(order.nodes.size()) + " places are left to cut, for " + std::to_string(stages) +
             " stages";
    }
  }
  if (!places.rows.empty()) text += "; programs before this one have settled where states are";
  return Status::Error(Code::kInvalidArgument, "--pp %d: %s", stages, text.c_str());
}

void Settle(const Graph& graph, const StageCut& cut, StagePlaces* places) {
  for (size_t i = 0; i < cut.states.size(); ++i)
    places->rows.emplace(StateKey(graph, static_cast<size_t>(graph.states[i].input)), cut.row_stages[i]);
  for (NodeId id : cut.order) {
    for (NodeId in : graph.node(id).inputs) {
      const NodeId base = graph.BaseOf(in);
      if (!graph.IsConstant(base)) continue;
      const std::string key = WeightKey(*graph.node(base).As<ir::ConstantAttrs>().data);
      if (!key.empty()) places->weights[key].insert(cut.stage_of[static_cast<size_t>(id)]);
    }
  }
}

}  // namespace

RowRange RowsOn(const StageCut& cut, size_t state, int stage) {
  const std::vector<int>& of = cut.row_stages[state];
  const auto first = std::find(of.begin(), of.end(), stage);
  const auto end = std::find_if(first, of.end(), [&](int s) { return s != stage; });
  return {first - of.begin(), end - of.begin()};
}

StageCut CutAt(const Graph& graph, const StageOrder& order, const std::vector<size_t>& cuts) {
  StageCut cut;
  cut.stages = static_cast<int>(cuts.size()) + 1;
  cut.states = FindStateRows(graph);
  cut.order = order.nodes;
  cut.stage_of.assign(static_cast<size_t>(graph.size()), kNoStage);
  size_t stage = 0;
  for (size_t at = 0; at < order.nodes.size(); ++at) {
    while (stage < cuts.size() && cuts[stage] <= at) ++stage;
    cut.stage_of[static_cast<size_t>(order.nodes[at])] = static_cast<int>(stage);
  }
  for (const StateRows& state : cut.states) cut.row_stages.push_back(RowStages(state, order, cut.stage_of));
  return cut;
}

Result<StageCut> CutStages(const Graph& graph, int stages, StagePlaces* places) {
  const Costs costs(graph, 2);
  const std::vector<NodeId> all = places->by_demand ? OrderByDemand(graph) : graph.TopologicalOrder();
  StageOrder order = OrderStages(graph, costs, all);
  if (order.nodes.size() < static_cast<size_t>(stages)) order = OrderStages(graph, costs, all, false);
  const std::vector<StateRows> states = FindStateRows(graph);
  const StageLoads loads(graph, costs, order, states);
  Search search(graph, order, loads, states, stages, *places);
  const std::vector<size_t> cuts = search.Run();
  if (cuts.size() + 1 != static_cast<size_t>(stages))
    return NoWay(graph, order, states, stages, search.choices(), *places);
  StageCut cut = CutAt(graph, order, cuts);
  for (size_t i = 0; i < states.size(); ++i) {
    const auto known = places->rows.find(StateKey(graph, static_cast<size_t>(graph.states[i].input)));
    if (known != places->rows.end()) cut.row_stages[i] = known->second;
  }
  Settle(graph, cut, places);
  return cut;
}

namespace {

// Finds the stage of every node of an order from annotations on some.
class Placing {
 public:
  Placing(const Graph& graph, const StageOrder& order, const std::vector<StateRows>& states,
          const std::map<std::string, int>& given)
      : g_(graph), order_(order), given_(given), stage_of_(static_cast<size_t>(graph.size()), 0) {
    for (size_t i = 0; i < states.size(); ++i) {
      if (!states[i].divides) continue;
      for (const auto& [node, rows] : states[i].touches) touches_[node].insert(i);
    }
  }

  Result<std::vector<int>> Run() {
    for (NodeId id : order_.nodes) {
      const ir::Node& node = g_.node(id);
      int least = 0;
      NodeId because = ir::kNoNode;
      for (const auto* before : {&node.inputs, &node.weak_after, &node.strong_after}) {
        for (NodeId in : *before) {
          const NodeId base = g_.BaseOf(in);
          const int stage = stage_of_[static_cast<size_t>(base)];
          if (stage <= least || OfOneState(base, id)) continue;
          least = stage;
          because = base;
        }
      }
      const auto found = given_.find(SourceOf(node));
      if (found != given_.end() && found->second < least) {
        return Status::Error(Code::kInvalidArgument,
                             "%s is of stage %d, but comes after %s, which is of stage %d",
                             SourceOf(node).c_str(), found->second, SourceOf(g_.node(because)).c_str(), least)
            .FromNode(SourceOf(node));
      }
      stage_of_[static_cast<size_t>(id)] = found != given_.end() ? found->second : least;
    }
    return std::move(stage_of_);
  }

 private:
  // Rows of a state may lie on several stages: users of some rows need not follow users of others.
  bool OfOneState(NodeId a, NodeId b) const {
    const auto mine = touches_.find(a), its = touches_.find(b);
    if (mine == touches_.end() || its == touches_.end()) return false;
    return std::any_of(mine->second.begin(), mine->second.end(),
                       [&](size_t state) { return its->second.count(state) != 0; });
  }

  const Graph& g_;
  const StageOrder& order_;
  const std::map<std::string, int>& given_;
  std::vector<int> stage_of_;
  std::map<NodeId, std::set<size_t>> touches_;  // states whose rows may lie on several stages
};

// The first stage without a node; -1 if there is none.
int EmptyStage(const StageOrder& order, const std::vector<int>& stage_of, int stages) {
  std::vector<bool> has(static_cast<size_t>(stages), false);
  for (NodeId id : order.nodes) has[static_cast<size_t>(stage_of[static_cast<size_t>(id)])] = true;
  const auto empty = std::find(has.begin(), has.end(), false);
  return empty == has.end() ? -1 : static_cast<int>(empty - has.begin());
}

}  // namespace

Result<StageCut> CutAsGiven(const Graph& graph, const std::map<std::string, int>& given, int stages,
                            StagePlaces* places) {
  const Costs costs(graph, 2);
  const std::vector<StateRows> states = FindStateRows(graph);
  const std::vector<NodeId> all = graph.TopologicalOrder();
  StageOrder order = OrderStages(graph, costs, all);
  RONDO_ASSIGN_OR_RETURN(std::vector<int> stage_of, Placing(graph, order, states, given).Run());
  if (EmptyStage(order, stage_of, stages) >= 0) {
    order = OrderStages(graph, costs, all, false);
    RONDO_ASSIGN_OR_RETURN(stage_of, Placing(graph, order, states, given).Run());
  }
  if (const int empty = EmptyStage(order, stage_of, stages); empty >= 0)
    return Status::Error(Code::kInvalidArgument, "no node is of stage %d", empty);
  const auto stage = [&](NodeId id) { return stage_of[static_cast<size_t>(id)]; };
  std::stable_sort(order.nodes.begin(), order.nodes.end(),
                   [&](NodeId a, NodeId b) { return stage(a) < stage(b); });
  std::vector<size_t> cuts;
  for (size_t at = 0; at < order.nodes.size(); ++at) {
    order.position[static_cast<size_t>(order.nodes[at])] = static_cast<int>(at);
    if (at > 0 && stage(order.nodes[at]) != stage(order.nodes[at - 1])) cuts.push_back(at);
  }
  const StageLoads loads(graph, costs, order, states);
  for (size_t cut : cuts) {
    if (!loads.Parts(cut)) continue;
    return Status::Error(
        Code::kInvalidArgument,
        "%s is the first node of a stage, but what it works with (a state, a loop) is used on the "
        "stage before it, too",
        SourceOf(graph.node(order.nodes[cut])).c_str());
  }
  const StageCut cut = CutAt(graph, order, cuts);
  Settle(graph, cut, places);
  return cut;
}

}  // namespace rondo::shard
