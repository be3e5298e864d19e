#include "compiler/shard/transfers.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/shard/describe.h"

namespace rondo::shard {
namespace {

class Finder {
 public:
  Finder(const Graph& graph, const StageCut& cut, bool host) : g_(graph), cut_(cut), host_(host) {
    place_.assign(static_cast<size_t>(graph.size()), -1);
    for (size_t at = 0; at < cut.order.size(); ++at)
      place_[static_cast<size_t>(cut.order[at])] = static_cast<int>(at);
    for (size_t i = 0; i < cut.states.size(); ++i) {
      for (NodeId version : cut.states[i].versions) versions_.insert(version);
      for (const auto& [node, rows] : cut.states[i].touches) touches_[node].insert(i);
    }
  }

  std::vector<Transfer> Run() {
    for (NodeId id : cut_.order) {
      Values(id);
      for (NodeId before : g_.node(id).weak_after) Order(before, id, false);
      for (NodeId before : g_.node(id).strong_after) Order(before, id, true);
    }
    std::vector<Transfer> out;
    for (const auto& [key, need] : values_) out.push_back(OfValue(key.first, key.second, need));
    for (const auto& [key, need] : orders_) {
      if (values_.count(key) == 0) out.push_back(OfOrder(key.first, key.second, need));
    }
    std::sort(out.begin(), out.end(), [&](const Transfer& a, const Transfer& b) {
      return std::tuple(PlaceOf(a.after), a.to) < std::tuple(PlaceOf(b.after), b.to);
    });
    return out;
  }

 private:
  struct Need {
    std::set<NodeId> shown;       // the node itself, or views of it
    std::vector<NodeId> readers;  // in order
    bool strong = false;
  };
  using Key = std::pair<NodeId, int>;  // the producer, and the stage that needs it

  int StageOf(NodeId id) const { return cut_.stage_of[static_cast<size_t>(id)]; }
  int PlaceOf(NodeId id) const { return place_[static_cast<size_t>(id)]; }

  void Values(NodeId reader) {
    for (NodeId in : g_.node(reader).inputs) {
      const NodeId base = g_.BaseOf(in);
      const bool local = StageOf(base) == kNoStage || StageOf(base) == StageOf(reader);
      if (local || versions_.count(base) != 0 || g_.node(base).shape.elements() == 0) continue;
      Need& need = values_[{base, StageOf(reader)}];
      need.shown.insert(in);
      if (need.readers.empty() || need.readers.back() != reader) need.readers.push_back(reader);
    }
  }

  void Order(NodeId before, NodeId id, bool strong) {
    const NodeId base = g_.BaseOf(before);
    if (StageOf(base) == kNoStage || StageOf(base) == StageOf(id) || TouchTheSame(base, id)) return;
    Need& need = orders_[{base, StageOf(id)}];
    need.strong = need.strong || strong;
    need.readers.push_back(id);
  }

  bool TouchTheSame(NodeId a, NodeId b) const {
    const auto mine = touches_.find(a), its = touches_.find(b);
    if (mine == touches_.end() || its == touches_.end()) return false;
    return std::any_of(mine->second.begin(), mine->second.end(),
                       [&](size_t state) { return its->second.count(state) != 0; });
  }

  Transfer OfValue(NodeId base, int to, const Need& need) const {
    Transfer out;
    out.after = out.value = base;
    const NodeId shown = *need.shown.begin();
    if (need.shown.size() == 1 && g_.node(shown).shape.elements() < g_.node(base).shape.elements())
      out.value = shown;
    out.channels_last = out.value == base && IsPicture(base, 0);
    Describe("Send of ", " (read by ", to, need, &out);
    return out;
  }

  // Whether it is a picture: made by a convolution or pool, or by pointwise nodes or channel concatenation
  // from one.
  bool IsPicture(NodeId id, int depth) const {
    constexpr int kMostDepth = 4;
    const ir::Node& node = g_.node(id);
    const bool wide = host_ || (ByteSize(node.dtype) == 2 && node.shape[1] % 8 == 0);
    if (node.shape.rank < 3 || node.shape[1] == 1 || !IsFloat(node.dtype) || !wide || depth > kMostDepth)
      return false;
    if (node.op == ir::Op::kConv || node.op == ir::Op::kPool) return true;
    const bool joins = node.op == ir::Op::kConcat && node.As<ir::ConcatAttrs>().axis == 1;
    if (node.op != ir::Op::kPointwise && !joins) return false;
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](NodeId in) { return IsPicture(in, depth + 1); });
  }

  Transfer OfOrder(NodeId base, int to, const Need& need) const {
    Transfer out;
    out.after = base;
    out.strong = need.strong;
    Describe("Send of word of ", " (which runs before ", to, need, &out);
    return out;
  }

  void Describe(const char* what, const char* who, int to, const Need& need, Transfer* out) const {
    out->from = StageOf(out->after);
    out->to = to;
    out->source = what + SourceOf(g_.node(out->after)) + " to stage " + std::to_string(to) + who +
                  SourceOf(g_.node(need.readers[0]));
    if (need.readers.size() > 1) out->source += " and " + std::to_string(need.readers.size() - 1) + " more";
    out->source += ")";
  }

  const Graph& g_;
  const StageCut& cut_;
  const bool host_;
  std::vector<int> place_;     // by node: its position in the order, or -1
  std::set<NodeId> versions_;  // of states
  std::map<NodeId, std::set<size_t>> touches_;
  std::map<Key, Need> values_, orders_;
};

}  // namespace

std::vector<Transfer> FindTransfers(const Graph& graph, const StageCut& cut, bool host) {
  return Finder(graph, cut, host).Run();
}

}  // namespace rondo::shard
