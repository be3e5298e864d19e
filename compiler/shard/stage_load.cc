#include "compiler/shard/stage_load.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>

#include "compiler/ir/node_annotation.h"
#include "compiler/shard/assign.h"

namespace rondo::shard {
namespace {

constexpr int64_t kSmallMatrix = 4096;   // elements
constexpr int64_t kWorthKnowing = 256;   // bytes of a constant that counts as a weight
constexpr double kMessagesToRepeat = 8;  // the most that repeated work may cost, in messages
constexpr size_t kMostAgain = 1000;

// The annotation that keeps nodes on one stage: the outermost region, or the group to keep together; "" if
// none.
std::string KeptOf(const Node& node) {
  for (const char* key : {kRegionKey, "keep"}) {
    const auto said = node.annotations.find(key);
    if (said != node.annotations.end()) return said->second.substr(0, said->second.find('/'));
  }
  return "";
}

bool HasNoWork(Op op) { return op == Op::kInput || op == Op::kConstant || op == Op::kView; }

// The cost of computing each node from inputs and constants alone; infinite if that is not allowed.
class Repeating {
 public:
  Repeating(const Graph& graph, double most)
      : g_(graph),
        most_(most),
        is_state_(graph.inputs.size(), false),
        is_waited_for_(static_cast<size_t>(graph.size()), false) {
    for (const ir::StatePair& pair : graph.states) is_state_[static_cast<size_t>(pair.input)] = true;
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (graph.node(id).dead) continue;
      for (NodeId before : graph.node(id).weak_after) is_waited_for_[At(before)] = true;
      for (NodeId before : graph.node(id).strong_after) is_waited_for_[At(before)] = true;
    }
  }

  std::vector<double> Run() {
    cost_.assign(static_cast<size_t>(g_.size()), kNever);
    for (NodeId id : g_.TopologicalOrder()) {
      const double cost = Of(g_.node(id));
      if (cost <= most_) cost_[static_cast<size_t>(id)] = cost;
    }
    return std::move(cost_);
  }

  static constexpr double kNever = std::numeric_limits<double>::infinity();

 private:
  size_t At(NodeId id) const { return static_cast<size_t>(g_.BaseOf(id)); }

  // A node with control edges runs only once, so that the edges keep their meaning.
  double Of(const Node& node) const {
    if (!node.weak_after.empty() || !node.strong_after.empty()) return kNever;
    if (!HasNoWork(node.op) && is_waited_for_[At(node.id)]) return kNever;
    if (!HasNoWork(node.op) && !KeptOf(node).empty()) return kNever;
    switch (node.op) {
      case Op::kInput: return is_state_[static_cast<size_t>(node.As<ir::InputAttrs>().index)] ? kNever : 0;
      case Op::kConstant: return static_cast<double>(BytesOf(node));
      case Op::kView: return cost_[static_cast<size_t>(node.inputs[0])];
      case Op::kMatMul:
        for (NodeId in : node.inputs) {
          if (g_.node(in).shape.elements() > kSmallMatrix) return kNever;
        }
        break;
      case Op::kPointwise:
      case Op::kIota:
      case Op::kReduce:
      case Op::kIndexedRead:
      case Op::kConcat: break;
      default: return kNever;
    }
    double cost = Costs::OfWork(g_, node);
    for (NodeId in : node.inputs) cost += cost_[static_cast<size_t>(in)];
    return cost;
  }

  const Graph& g_;
  const double most_;
  std::vector<bool> is_state_;       // by input
  std::vector<bool> is_waited_for_;  // by node
  std::vector<double> cost_;
};

bool HasEpilogue(Op op) { return op == Op::kMatMul || op == Op::kConv; }

}  // namespace

StageOrder OrderStages(const Graph& graph, const Costs& costs, const std::vector<NodeId>& all, bool repeat) {
  const double most = repeat ? kMessagesToRepeat * costs.OfMessage() : -1;
  const std::vector<double> repeating = Repeating(graph, most).Run();
  StageOrder order;
  order.position.assign(static_cast<size_t>(graph.size()), -1);
  for (NodeId id : all) {
    if (HasNoWork(graph.node(id).op) || repeating[static_cast<size_t>(id)] != Repeating::kNever) continue;
    order.position[static_cast<size_t>(id)] = static_cast<int>(order.nodes.size());
    order.nodes.push_back(id);
  }
  return order;
}

StageLoads::StageLoads(const Graph& graph, const Costs& costs, const StageOrder& order,
                       const std::vector<StateRows>& states)
    : g_(graph) {
  sent_.assign(order.nodes.size() + 1, 0);
  together_.assign(order.nodes.size() + 1, 0);
  sum_.assign(order.nodes.size() + 1, 0);
  weights_.resize(order.nodes.size());
  for (size_t at = 0; at < order.nodes.size(); ++at)
    sum_[at + 1] += Costs::OfWork(graph, graph.node(order.nodes[at]));
  FindWeights(order);
  KeepStates(order, states);
  FindSent(order, costs, states);
  for (size_t at = 1; at < sum_.size(); ++at) {
    sum_[at] += sum_[at - 1];
    sent_[at] += sent_[at - 1];
    together_[at] += together_[at - 1];
  }
}

void StageLoads::FindWeights(const StageOrder& order) {
  std::unordered_map<NodeId, size_t> used;
  for (size_t at = 0; at < order.nodes.size(); ++at) {
    for (NodeId in : g_.node(order.nodes[at]).inputs) {
      const NodeId base = g_.BaseOf(in);
      if (!g_.IsConstant(base) || BytesOf(g_.node(base)) < kWorthKnowing) continue;
      const auto bytes = static_cast<double>(BytesOf(g_.node(base)));
      const auto [entry, added] = used.try_emplace(base, at);
      if (added) {
        sum_[at + 1] += bytes;
        weights_[at].push_back(base);
      } else if (entry->second != at) {
        again_.push_back({entry->second, at, bytes});
        entry->second = at;
      }
    }
  }
  std::stable_sort(again_.begin(), again_.end(),
                   [](const Again& a, const Again& b) { return a.bytes > b.bytes; });
  again_.resize(std::min(again_.size(), kMostAgain));
}

// Stores differences, which are summed up at the end.
void StageLoads::KeepTogether(size_t first, size_t last) {
  if (first >= last) return;
  ++together_[first + 1];
  --together_[last + 1];
}

void StageLoads::KeepStates(const StageOrder& order, const std::vector<StateRows>& states) {
  for (const StateRows& state : states) {
    const double row = static_cast<double>(state.row_elements * ByteSize(g_.node(state.versions[0]).dtype));
    for (const RowSpan& span : RowSpans(state, order.position)) {
      if (span.first < 0) continue;
      sum_[static_cast<size_t>(span.first) + 1] += row;
      KeepTogether(static_cast<size_t>(span.first), static_cast<size_t>(span.last));
    }
  }
  std::map<std::string, size_t> regions;  // by annotation: the first position of its nodes
  for (size_t at = 0; at < order.nodes.size(); ++at) {
    const Node& node = g_.node(order.nodes[at]);
    if (const std::string kept = KeptOf(node); !kept.empty())
      KeepTogether(regions.emplace(kept, at).first->second, at);
    if (node.op != Op::kCallResult && node.op != Op::kLoopResult) continue;
    KeepTogether(static_cast<size_t>(order.position[static_cast<size_t>(node.inputs[0])]), at);
  }
}

// A value is sent over every cut between its node and its last reader. States are not sent.
void StageLoads::FindSent(const StageOrder& order, const Costs& costs, const std::vector<StateRows>& states) {
  std::vector<bool> is_state(static_cast<size_t>(g_.size()), false);
  for (const StateRows& state : states) {
    for (NodeId version : state.versions) is_state[static_cast<size_t>(version)] = true;
  }
  std::vector<int> last(static_cast<size_t>(g_.size()), -1);
  for (size_t at = 0; at < order.nodes.size(); ++at) {
    for (NodeId in : g_.node(order.nodes[at]).inputs)
      last[static_cast<size_t>(g_.BaseOf(in))] = static_cast<int>(at);
  }
  for (size_t at = 0; at < order.nodes.size(); ++at) {
    const auto id = static_cast<size_t>(order.nodes[at]);
    if (last[id] <= static_cast<int>(at) || is_state[id]) continue;
    double cost = costs.OfSending(BytesOf(g_.node(order.nodes[at])));
    // A pointwise node right after it would have been its epilogue.
    if (HasEpilogue(g_.node(order.nodes[at]).op) && last[id] == static_cast<int>(at) + 1 &&
        g_.node(order.nodes[at + 1]).op == Op::kPointwise) {
      cost += costs.OfMessage();
    }
    sent_[at + 1] += cost;
    sent_[static_cast<size_t>(last[id]) + 1] -= cost;
  }
}

double StageLoads::Of(size_t first, size_t end) const {
  double load = sum_[end] - sum_[first];
  for (const Again& again : again_) {
    if (again.before < first && first <= again.at && again.at < end) load += again.bytes;
  }
  return load;
}

}  // namespace rondo::shard
