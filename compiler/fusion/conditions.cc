#include "compiler/fusion/conditions.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "compiler/ir/builder.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/versions.h"

namespace rondo::fusion {
namespace {

using ir::Graph, ir::Node, ir::NodeId, ir::Op;

constexpr size_t kMostConditions = 8;  // of one node

double Elements(const Node& node) { return static_cast<double>(node.shape.elements()); }

bool IsSelect(const Node& node) {
  return node.op == Op::kPointwise && node.As<ir::PointwiseAttrs>().op == TapeOp::kSelect;
}

bool IsFunction(const Node& node) {
  return AccuracyOf(node.As<ir::PointwiseAttrs>().op) == Accuracy::kFunction;
}

// Estimated work in multiplications.
double WorkOf(const Graph& graph, const Node& node) {
  const auto input = [&](size_t k) -> const Node& { return graph.node(node.inputs[k]); };
  switch (node.op) {
    case Op::kPointwise: return Elements(node) * (IsFunction(node) ? 16 : 1);
    case Op::kMatMul: return Elements(node) * static_cast<double>(input(0).shape[input(0).shape.rank - 1]);
    case Op::kConv: return Elements(node) * Elements(input(1)) / static_cast<double>(input(1).shape[0]);
    case Op::kPool: {
      double window = 1;
      for (int64_t extent : node.As<ir::PoolAttrs>().kernel) window *= static_cast<double>(extent);
      return Elements(node) * window;
    }
    case Op::kAttention: return 2 * Elements(input(0)) * static_cast<double>(input(1).shape[2]);
    case Op::kReduce:
    case Op::kTopK: return Elements(input(0));
    case Op::kLoop: {
      const ir::LoopInfo& info = *node.As<ir::LoopAttrs>().info;
      double round = 0;
      for (NodeId id = 0; id < info.body.size(); ++id) {
        if (!info.body.node(id).dead) round += WorkOf(info.body, info.body.node(id));
      }
      return round * static_cast<double>(info.trips);
    }
    case Op::kIndexedRead:
    case Op::kIndexedWrite: return Elements(node);
    default: return 0;
  }
}

void Add(Conditions* to, const Condition& condition) {
  if (to->size() < kMostConditions && std::find(to->begin(), to->end(), condition) == to->end())
    to->push_back(condition);
}

// Finds the conditions under which each node is needed, starting from the outputs.
class Finder {
 public:
  Finder(Graph* graph, const std::vector<NodeId>& order, const Conditions& where, double least)
      : g_(*graph), b_(graph), order_(order), always_(where), least_(least) {}

  std::vector<Needed> Run() {
    if (always_.empty() && !HasCondition()) return {};
    found_.resize(static_cast<size_t>(g_.size()));
    seen_.assign(found_.size(), false);
    forced_.assign(found_.size(), false);
    always_both_.assign(found_.size(), false);
    after_.resize(found_.size());
    ForceAll();
    for (size_t i = order_.size(); i-- > 0;) Visit(g_.node(order_[i]));
    DropCheap();
    return std::move(found_);
  }

 private:
  bool IsConditional(const Node& node) const {
    Conditions conditions;
    if (IsSelect(node)) Conjuncts(node.inputs[0], true, &conditions);
    return !conditions.empty();
  }
  bool HasCondition() const {
    return std::any_of(order_.begin(), order_.end(), [&](NodeId id) { return IsConditional(g_.node(id)); });
  }

  bool IsTruth(NodeId id, int64_t value) const {
    std::vector<int64_t> values;
    return b_.ConstantInts(id, &values) &&
           std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
  }

  bool IsZero(NodeId id) const {
    std::vector<double> values;
    return b_.ConstantFloats(id, &values) &&
           std::all_of(values.begin(), values.end(), [](double v) { return v == 0; });
  }

  // The conditions that make the bool shown by `id` equal `holds`. None if it shows several bools, or a
  // constant.
  void Conjuncts(NodeId id, bool holds, Conditions* out) const {
    const ir::View view = g_.ViewOf(id);
    const Node& base = g_.node(g_.BaseOf(id));
    if (base.dtype != DType::kBool || base.op == Op::kConstant || !view.affine() ||
        g_.node(id).shape.elements() == 0)
      return;
    const ir::ViewStep& step = view.steps[0];
    for (int d = 0; d < step.shape.rank; ++d) {
      if (step.shape[d] > 1 && step.strides[d] != 0) return;
    }
    if (base.shape.elements() == 1 && base.op == Op::kPointwise) {
      const TapeOp op = base.As<ir::PointwiseAttrs>().op;
      const auto both = [&](NodeId a, bool a_holds, NodeId b, bool b_holds) {
        Conjuncts(a, a_holds, out);
        Conjuncts(b, b_holds, out);
      };
      const std::vector<NodeId>& in = base.inputs;
      if (op == TapeOp::kNot) return Conjuncts(in[0], !holds, out);
      if (op == TapeOp::kBitAnd && holds) return both(in[0], true, in[1], true);
      if (op == TapeOp::kBitOr && !holds) return both(in[0], false, in[1], false);
      if (op == TapeOp::kSelect && IsTruth(in[2], holds ? 0 : 1)) return both(in[0], true, in[1], holds);
      if (op == TapeOp::kSelect && IsTruth(in[1], holds ? 0 : 1)) return both(in[0], false, in[2], holds);
    }
    Add(out, {base.id, step.offset, holds});
  }

  // Nodes with effects, or with an order of their own, are always needed.
  void ForceAll() {
    const auto force = [&](NodeId id) { forced_[static_cast<size_t>(g_.BaseOf(id))] = true; };
    for (const ir::GraphOutput& output : g_.outputs) force(output.node);
    const auto force_readers = [&](NodeId input) {
      for (NodeId id : order_) {
        const std::vector<NodeId>& read = g_.node(id).inputs;
        if (std::any_of(read.begin(), read.end(), [&](NodeId r) { return g_.BaseOf(r) == input; })) force(id);
      }
    };
    // Readers of a state must not wait for anything that depends on its new value.
    for (const ir::StatePair& pair : g_.states) {
      const NodeId last = g_.BaseOf(g_.outputs[static_cast<size_t>(pair.output)].node);
      if (ir::VersionStepOf(g_, last).runs == ir::kNoNode)
        force_readers(g_.inputs[static_cast<size_t>(pair.input)].node);
    }
    for (const ir::Donation& donation : g_.donations)
      force_readers(g_.inputs[static_cast<size_t>(donation.input)].node);
    for (NodeId id : order_) {
      const Node& node = g_.node(id);
      if ((ir::HasEffect(node) && !ir::IsAssertion(node)) || node.op == Op::kCollective ||
          node.op == Op::kCall || node.op == Op::kCallResult)
        force(id);
      for (NodeId before : node.strong_after) force(before);
    }
  }

  // The conditions under which an index of `node` may be out of range, or an assertion may fail, and is not
  // replaced: there the node must run. No value: it never must.
  std::optional<Conditions> FaultsWhere(const Node& node) const {
    std::optional<Conditions> where;
    if (ir::IsAssertion(node)) {
      where.emplace();
      const Node& base = g_.node(g_.BaseOf(node.inputs[0]));
      if (IsSelect(base) && IsZero(base.inputs[2])) Conjuncts(base.inputs[0], true, &*where);
      return where;
    }
    if (node.op != Op::kIndexedRead && node.op != Op::kIndexedWrite) return where;
    const ir::IndexedAttrs& attrs = node.As<ir::IndexedAttrs>();
    const size_t first = node.inputs.size() - attrs.dims.size();
    for (size_t k = 0; k < attrs.dims.size(); ++k) {
      const NodeId index = node.inputs[first + k];
      if (!attrs.dims[k].fault || b_.AlwaysInside(index, attrs.dims[k])) continue;
      Conditions chosen;
      const Node& base = g_.node(g_.BaseOf(index));
      if (IsSelect(base)) {
        if (b_.AlwaysInside(base.inputs[2], attrs.dims[k])) Conjuncts(base.inputs[0], true, &chosen);
        if (b_.AlwaysInside(base.inputs[1], attrs.dims[k])) Conjuncts(base.inputs[0], false, &chosen);
      }
      where = where ? Common(*where, chosen) : chosen;
    }
    return where;
  }

  // Rows of attention that keep no key see all of them, with queries of 0 (passes/recognise_causal.cc). Runs
  // have no such rows, except by mistake, and a kernel that tests a condition first asks for its weights
  // late: the queries are always computed.
  void FindEmptyRows(const Node& attention) {
    const ir::AttentionInputs in = ir::AttentionInputsOf(attention);
    if (in.limit == ir::kNoNode) return;
    const Node &q = g_.node(g_.BaseOf(in.q)), &limit = g_.node(g_.BaseOf(in.limit));
    if (IsSelect(q) && IsSelect(limit) && IsZero(q.inputs[2]) && IsSame(q.inputs[0], limit.inputs[0]))
      always_both_[static_cast<size_t>(q.id)] = true;
  }

  // Whether both show the same number or bool, computed from the same by the same scalar operations: a pass
  // may have given each reader its own.
  bool IsSame(NodeId x, NodeId y, int depth = 0) const {
    constexpr int kMostSteps = 8;
    const Node &a = g_.node(g_.BaseOf(x)), &b = g_.node(g_.BaseOf(y));
    if (a.shape.elements() != 1 || b.shape.elements() != 1) return false;
    if (a.id == b.id) return true;
    if (depth > kMostSteps || a.op != Op::kPointwise || b.op != Op::kPointwise || a.dtype != b.dtype ||
        a.inputs.size() != b.inputs.size())
      return false;
    const ir::PointwiseAttrs &one = a.As<ir::PointwiseAttrs>(), &other = b.As<ir::PointwiseAttrs>();
    if (one.op != other.op || one.immediate != other.immediate) return false;
    for (size_t k = 0; k < a.inputs.size(); ++k) {
      if (!IsSame(a.inputs[k], b.inputs[k], depth + 1)) return false;
    }
    return true;
  }

  void Use(NodeId of, const Conditions& where) {
    const size_t base = static_cast<size_t>(g_.BaseOf(of));
    found_[base].where = seen_[base] ? Common(found_[base].where, where) : where;
    seen_[base] = true;
  }

  void Visit(const Node& node) {
    const size_t id = static_cast<size_t>(node.id);
    Needed& own = found_[id];
    if (forced_[id] || !seen_[id] || node.op == Op::kView) own.where = always_;
    if (const std::optional<Conditions> faults = FaultsWhere(node)) {
      own.faults = true;
      Conditions kept = always_;
      for (const Condition& condition : Common(own.where, *faults)) Add(&kept, condition);
      own.where = std::move(kept);
    }
    seen_[id] = true;
    DropLater(node.id, &own.where);
    const Conditions where = own.where;
    for (NodeId before : node.weak_after) after_[static_cast<size_t>(g_.BaseOf(before))].push_back(node.id);
    for (NodeId before : node.strong_after) Use(before, where);
    if (node.op == Op::kView) return;  // the readers of a view look through it
    if (node.op == Op::kAttention) FindEmptyRows(node);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      Conditions used = where;
      if (k > 0 && IsSelect(node) && !always_both_[id]) Conjuncts(node.inputs[0], k == 1, &used);
      if (node.op == Op::kLoop) used.resize(std::min(used.size(), PlaceAmongConditions(node, k)));
      Use(node.inputs[k], used);
    }
  }

  // A node that weak edges put after `id` may be needed more often. Drops the conditions that it neither has
  // nor comes after anyway, and those behind them.
  void DropLater(NodeId id, Conditions* where) {
    for (NodeId later : after_[static_cast<size_t>(id)]) {
      const Conditions& own = found_[static_cast<size_t>(later)].where;
      const auto is_later = [&](const Condition& c) {
        return std::find(own.begin(), own.end(), c) == own.end() && g_.node(c.base).op != Op::kInput &&
               !g_.Reaches(c.base, later);
      };
      where->erase(std::find_if(where->begin(), where->end(), is_later), where->end());
    }
  }

  // The number of a loop's conditions before input `k`; all, if `k` is not a condition.
  static size_t PlaceAmongConditions(const Node& loop, size_t k) {
    const std::vector<ir::LoopCondition>& when = loop.As<ir::LoopAttrs>().info->when;
    size_t place = 0;
    while (place < when.size() && when[place].input != k) ++place;
    return place < when.size() ? place : kMostConditions;
  }

  void DropCheap() {
    std::map<std::pair<NodeId, int64_t>, double> work;
    bool any = false;
    for (NodeId id : order_) {
      Needed& needed = found_[static_cast<size_t>(id)];
      const double own = WorkOf(g_, g_.node(id));
      const bool cheap = g_.node(id).op == Op::kIndexedRead ||
                         (g_.node(id).op == Op::kPointwise && (own < least_ || !IsFunction(g_.node(id))));
      needed.expensive = !cheap;
      for (const Condition& c : needed.where) work[{c.base, c.element}] += own;
    }
    for (const Condition& c : always_) work[{c.base, c.element}] = least_;
    for (Needed& needed : found_) {
      std::erase_if(needed.where, [&](const Condition& c) { return work[{c.base, c.element}] < least_; });
      any |= !needed.where.empty();
    }
    if (!any) found_.clear();
  }

  Graph& g_;
  const ir::Builder b_;
  const std::vector<NodeId>& order_;
  const Conditions always_;
  const double least_;
  std::vector<Needed> found_;
  std::vector<bool> seen_, forced_;         // by node: a use was seen; it is always needed
  std::vector<bool> always_both_;           // by node: a Select whose arms are needed whatever it takes
  std::vector<std::vector<NodeId>> after_;  // by node: those that weak edges put after it
};

// The bool as a tensor of one element.
NodeId Show(Graph* graph, const Condition& condition) {
  const Node& base = graph->node(condition.base);
  Node view;
  view.op = Op::kView;
  view.dtype = DType::kBool;
  ir::ViewStep step;
  step.offset = condition.element;
  view.attrs = ir::ViewAttrs{ir::View{{step}}};
  view.inputs = {condition.base};
  view.sources = base.sources;
  return graph->Add(std::move(view));
}

}  // namespace

Conditions Common(const Conditions& a, const Conditions& b) {
  Conditions both;
  std::copy_if(a.begin(), a.end(), std::back_inserter(both),
               [&](const Condition& c) { return std::find(b.begin(), b.end(), c) != b.end(); });
  return both;
}

std::vector<Needed> FindNeeded(Graph* graph, const std::vector<NodeId>& order, const Conditions& where,
                               double least) {
  return Finder(graph, order, where, least).Run();
}

void PassConditionsToLoops(Graph* graph, double least) {
  graph->RemoveDead();  // unneeded nodes have no conditions
  const std::vector<NodeId> order = graph->TopologicalOrder();
  if (std::none_of(order.begin(), order.end(), [&](NodeId id) { return graph->node(id).op == Op::kLoop; }))
    return;
  const std::vector<Needed> needed = FindNeeded(graph, order, {}, least);
  if (needed.empty()) return;
  for (NodeId id : order) {
    const Conditions& where = needed[static_cast<size_t>(id)].where;
    if (graph->node(id).op != Op::kLoop || where.empty()) continue;
    auto info = std::make_shared<ir::LoopInfo>(*graph->node(id).As<ir::LoopAttrs>().info);
    for (const Condition& condition : where) {
      const size_t slot = info->inputs.size();
      Node input;
      input.op = Op::kInput;
      input.dtype = DType::kBool;
      input.attrs = ir::InputAttrs{static_cast<int>(slot)};
      info->body.inputs.push_back({"condition" + std::to_string(slot), info->body.Add(std::move(input))});
      info->inputs.push_back({});
      info->when.push_back({slot, condition.holds});
      graph->node(id).inputs.push_back(ir::kNoNode);
      graph->SetInput(id, slot, Show(graph, condition));
    }
    for (NodeId reader : order) {
      Node& node = graph->node(reader);
      const bool result = node.op == Op::kLoopResult && node.inputs[0] == id;
      if (reader == id || result) node.As<ir::LoopAttrs>().info = info;
    }
  }
}

}  // namespace rondo::fusion
