#include "compiler/shard/row_shardings.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/node_annotation.h"
#include "compiler/shard/local_view.h"
#include "core/collective.h"

namespace rondo::shard {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Op;

constexpr int64_t kFarSmaller = 8;  // than the values where the search began: tables of positions, masks

bool IsBound(const Node& node) {
  return std::any_of(node.annotations.begin(), node.annotations.end(), [](const auto& said) {
    return (Binds(said.first, said.second) && !IsChoice(said.first)) || said.first == kChunkKey;
  });
}

// The tensor that a chain of writes updates.
NodeId FirstWritten(const Graph& graph, NodeId id) {
  while (graph.node(id).op == Op::kIndexedWrite) id = graph.BaseOf(graph.node(id).inputs[0]);
  return id;
}

class Finder {
 public:
  Finder(const Graph& graph, const std::vector<NodeId>& from, int64_t chunks)
      : g_(graph), users_(graph.AllUsers()), chunks_(chunks), chosen_(Size(), false), behind_(Size(), false) {
    shardings_.cut.assign(Size(), false);
    shardings_.in_turn.assign(Size(), false);
    shardings_.rules.resize(Size());
    for (NodeId id : from) chosen_[At(id)] = true;
    for (NodeId id = 0; id < g_.size(); ++id) {
      const Node& node = g_.node(id);
      behind_[At(id)] = chosen_[At(id)] || std::any_of(node.inputs.begin(), node.inputs.end(),
                                                       [&](NodeId in) { return behind_[At(in)]; });
    }
  }

  RowShardings Find() {
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (chosen_[At(id)] && MayBeCut(id)) Begin(id);
    }
    return std::move(shardings_);
  }

 private:
  size_t Size() const { return static_cast<size_t>(g_.size()); }
  static size_t At(NodeId id) { return static_cast<size_t>(id); }
  const Shape& shape(NodeId id) const { return g_.node(id).shape; }

  // Rows are the outermost dim that divides, but never the last, along which norms and matmuls sum. Gathered
  // values are flat: their rows are those of the gather's input.
  void Begin(NodeId id) {
    const Node& node = g_.node(id);
    moved_ = node.shape.elements();
    const NodeId sent = node.inputs[0], base = g_.BaseOf(sent);
    const Shape& rows = shape(base);
    for (int d = 0; d + 1 < rows.rank; ++d) {
      if (rows[d] < chunks_ || rows[d] % chunks_ != 0) continue;
      Sharding sharding = SplitOf(rows, d, rows[d] / chunks_, chunks_);
      if (base != sent) sharding = ShardingShown(g_.ViewOf(sent), rows.elements(), sharding, chunks_);
      if (!sharding.is_split()) continue;
      for (Rule& rule : RulesFor(node, 0, sharding)) {
        if (!Fits(node, rule)) continue;
        Cut(id, std::move(rule));
        break;
      }
      break;
    }
    while (!work_.empty()) {
      const NodeId at = work_.back();
      work_.pop_back();
      CutReaders(at);
      CutProducers(at);
    }
  }

  void Cut(NodeId id, Rule rule) {
    shardings_.cut[At(id)] = true;
    shardings_.rules[At(id)] = std::move(rule);
    work_.push_back(id);
  }

  // Whether the node's op and annotations allow a cut, and it is not cut yet.
  bool MayBeCut(NodeId id) const {
    const Node& node = g_.node(id);
    if (shardings_.cut[At(id)] || IsBound(node)) return false;
    if (ir::HasEffect(node) && !ir::IsAssertion(node)) return false;
    return node.op != Op::kInput && node.op != Op::kConstant &&
           (node.op != Op::kCollective || chosen_[At(id)]);
  }

  // Inputs that are already cut must have the rule's shardings, and none may be partial sums.
  bool Fits(const Node& node, const Rule& rule) const {
    if (!rule.output.is_split()) return false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (rule.inputs[i] == kPartial) return false;
      const bool weight = node.op == Op::kMatMul && g_.IsConstant(g_.BaseOf(node.inputs[i]));
      if (weight && rule.inputs[i].is_split() && ReadsPartOfWeight(node.inputs[i], rule.inputs[i]))
        return false;
      if (rule.inputs[i].is_split() && shardings_.cut[At(node.inputs[i])] &&
          shardings_.rules[At(node.inputs[i])].output != rule.inputs[i])
        return false;
    }
    return true;
  }

  // Whether chunks would read parts of a weight. Chunks along a batch dim over which it is broadcast do not.
  bool ReadsPartOfWeight(NodeId id, Sharding sharding) const {
    const NodeId base = g_.BaseOf(id);
    return base == id || ShardingBehind(g_.ViewOf(id), shape(base).elements(), sharding, chunks_).is_split();
  }

  std::vector<Rule> RulesFor(const Node& node, int slot, Sharding sharding) const {
    if (node.op != Op::kCollective) return RulesWith(g_, node, slot, sharding, chunks_);
    const CollectiveOp op = node.As<ir::CollectiveAttrs>().op;
    const Sharding other = slot < 0 ? sharding : sharding.WithCopies(1);
    const int64_t least = std::min(node.shape.elements(), shape(node.inputs[0]).elements());
    const bool whole_runs = least % (sharding.run * chunks_) == 0;
    const CollectiveFacts& facts = FactsOf(op);
    const bool gathers = facts.writes == CollectiveLayout::kEach, between_all = facts.to == kEveryRank;
    const bool whole = KeepsShape(op) && facts.reads == CollectiveLayout::kOne;
    // Each device's share is gathered in chunks: the same runs of every share.
    if (!(whole || gathers) || !between_all || !whole_runs || DimOf(node.shape, sharding, chunks_).dim < 0)
      return {};
    return {{{sharding}, other}};
  }

  // A write of rows into a tensor that others read whole, such as a cache, goes chunk by chunk.
  std::optional<Rule> WriteInTurn(const Node& node, Sharding sharding) const {
    const auto& attrs = node.As<ir::IndexedAttrs>();
    if (attrs.may_collide || DimOf(attrs.map.shape(), sharding, chunks_).dim < 0) return std::nullopt;
    if (g_.node(FirstWritten(g_, node.id)).op != Op::kInput) return std::nullopt;
    Rule rule{std::vector<Sharding>(node.inputs.size(), sharding), kWhole};
    rule.inputs[0] = kWhole;
    return rule;
  }

  void CutReaders(NodeId id) {
    if (shardings_.in_turn[At(id)]) return;
    const Sharding sharding = shardings_.rules[At(id)].output;
    for (NodeId reader : users_[At(id)]) {
      if (!MayBeCut(reader)) continue;
      const Node& node = g_.node(reader);
      for (size_t slot = 0; slot < node.inputs.size() && !shardings_.cut[At(reader)]; ++slot) {
        if (node.inputs[slot] != id) continue;
        if (node.op == Op::kIndexedWrite && slot > 0) {
          if (auto rule = WriteInTurn(node, sharding)) {
            shardings_.in_turn[At(reader)] = true;
            Cut(reader, std::move(*rule));
            break;
          }
        }
        for (Rule& rule : RulesFor(node, static_cast<int>(slot), sharding)) {
          if (!Fits(node, rule)) continue;
          Cut(reader, std::move(rule));
          break;
        }
      }
    }
  }

  // Cuts the producers of the chunks' inputs, if they are about as large as the collective or wait for one.
  void CutProducers(NodeId id) {
    const std::vector<Sharding> wanted = shardings_.rules[At(id)].inputs;
    const std::vector<NodeId> inputs = g_.node(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const NodeId input = inputs[i];
      if (!wanted[i].is_split() || !MayBeCut(input)) continue;
      if (!behind_[At(input)] && shape(input).elements() * kFarSmaller < moved_) continue;
      for (Rule& rule : RulesFor(g_.node(input), -1, wanted[i])) {
        if (rule.output != wanted[i] || !Fits(g_.node(input), rule)) continue;
        Cut(input, std::move(rule));
        break;
      }
    }
  }

  const Graph& g_;
  const ir::Users users_;
  const int64_t chunks_;
  std::vector<bool> chosen_, behind_;  // where the search begins; nodes that wait for one of them
  int64_t moved_ = 0;                  // elements of the node where the search began
  RowShardings shardings_;
  std::vector<NodeId> work_;
};

}  // namespace

RowShardings FindRowShardings(const Graph& graph, const std::vector<NodeId>& from, int64_t chunks) {
  return Finder(graph, from, chunks).Find();
}

}  // namespace rondo::shard
