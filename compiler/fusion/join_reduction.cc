// Pointwise work and reductions around a row reduction become stages of one part.
#include <algorithm>
#include <array>

#include "compiler/fusion/grouping.h"

namespace rondo::fusion {

namespace {

std::vector<int64_t> Canonical(const View& view) {
  std::vector<int64_t> out = {static_cast<int64_t>(view.steps.size())};
  for (const ir::ViewStep& step : view.steps) {
    out.push_back(step.offset);
    for (int d = 0; d < step.shape.rank; ++d) {
      out.push_back(step.shape[d]);
      out.push_back(step.shape[d] == 1 ? 0 : step.strides[d]);
    }
  }
  return out;
}

// `view` (of any shape) repeats row values over the elements of each row, in order.
bool RepeatsRows(const Shape& domain, const Shape& reduced, const View& view) {
  if (view.shape().elements() != domain.elements()) return false;
  View expected = ir::Expand(ir::DenseView(reduced), domain);
  return ir::Reshape(view, domain) == ir::Compose(expected, ir::DenseView(domain)) ||
         Canonical(ir::Reshape(view, domain)) == Canonical(expected);
}

}  // namespace

Grouping::Kind Grouping::Of(const Kinds& kinds, NodeId id) {
  const auto it = kinds.find(id);
  return it == kinds.end() ? Kind::kNone : it->second;
}

Grouping::Kind Grouping::KindOf(const Rows& rows, const Kinds& kinds, NodeId id) const {
  const Node& node = c_.node(id);
  int64_t elements = rows.domain.elements(), count = rows.reduced.elements();
  if (node.op == Op::kReduce) {
    const ir::ReduceAttrs& attrs = node.As<ir::ReduceAttrs>();
    const View view = c_.graph.ViewOf(node.inputs[0]);
    bool fits = view.shape() == rows.domain && attrs.axes == rows.axes &&
                Of(kinds, c_.base(node.inputs[0])) == Kind::kElement && ir::IsDense(view, elements);
    return fits ? Kind::kRow : Kind::kNone;
  }
  if (c_.FusionOff(id)) return Kind::kNone;
  if (c_.options.target.atomics && ir::CombinesIntoOne(node)) {
    const Kind all = Of(kinds, c_.base(node.inputs[1]));
    const bool fits = ir::IsDense(c_.graph.ViewOf(node.inputs[1]), all == Kind::kRow ? count : elements);
    return fits && (all != Kind::kRow || count > 1) ? all : Kind::kNone;
  }
  if (node.op != Op::kPointwise) return Kind::kNone;
  int64_t n = node.shape.elements();
  Kind kind = n == elements ? Kind::kElement : n == count ? Kind::kRow : Kind::kNone;
  for (NodeId input : node.inputs) {
    Kind in = Of(kinds, c_.base(input));
    if (in == Kind::kNone) continue;
    const View view = c_.graph.ViewOf(input);
    bool fits = in == Kind::kElement ? kind == Kind::kElement && ir::IsDense(view, elements)
                : kind == Kind::kRow ? ir::IsDense(view, count)
                                     : RepeatsRows(rows.domain, rows.reduced, view);
    if (!fits) return Kind::kNone;
  }
  return kind;
}

void Grouping::ReductionGroup(NodeId first) {
  Group* group = NewBudgetedGroup(Skeleton::kReduction, first);
  int id = group->id;
  Rows rows;
  NodeId input = c_.node(first).inputs[0];
  rows.domain = c_.node(input).shape;
  rows.reduced = c_.node(first).shape;
  rows.axes = c_.node(first).As<ir::ReduceAttrs>().axes;
  rows.input = input;
  Kinds kinds;
  kinds.emplace(first, Kind::kRow);
  group->rows.push_back(first);
  group->sink = c_.base(input);
  group->domain = rows.domain;
  group->reduced = rows.reduced;
  if (!c_.options.reductions || c_.FusionOff(first) || rows.domain.elements() == rows.reduced.elements()) {
    c_.groups[id].anchors = {first};
    return;
  }
  AbsorbElements(rows, id, &kinds, {first});
  for (bool grew = true; grew;) {
    grew = false;
    // New members are examined in the same round, so that a chain of rows takes one round instead of one for
    // each.
    for (size_t i = 0; i < c_.groups[id].nodes.size(); ++i) {
      const NodeId member = c_.groups[id].nodes[i];
      for (NodeId reader : c_.readers[member]) {
        grew |= TryCluster(rows, id, &kinds, reader);
      }
      grew |= TakeReductionsBeside(rows, id, &kinds, member);
    }
  }
  c_.groups[id].anchors = {first};
  AbsorbProducers(&c_.groups[id]);
}

// There are few row scalars, and concurrent reductions use them, unlike reductions one after another.
bool Grouping::TakesReduction(const Group& group, NodeId id) const {
  constexpr int kMostAtOnce = 8, kMost = 128;
  std::vector<NodeId> members = group.nodes;
  members.push_back(id);
  std::sort(members.begin(), members.end(),
            [&](NodeId a, NodeId b) { return c_.position[a] < c_.position[b]; });
  std::array<int, kMost + 2> reductions = {};  // by level
  int all = 0;
  bool takes = true;
  levels_.resize(static_cast<size_t>(c_.graph.size()), -1);
  for (NodeId member : members) {
    int level = 0;
    for (NodeId input : c_.node(member).inputs) level = std::max(level, levels_[c_.base(input)]);
    if (c_.node(member).op == Op::kReduce) {
      ++level;
      takes = ++all <= kMost && ++reductions[level] <= kMostAtOnce;
      if (!takes) break;
    }
    levels_[member] = level;
  }
  for (NodeId member : members) levels_[member] = -1;
  return takes;
}

// Whether it is a reduction over rows of the same shape that does not read a member.
bool Grouping::CanReduceBeside(const Rows& rows, int group, NodeId id) const {
  const Node& node = c_.node(id);
  if (node.op != Op::kReduce || !MayJoin(group, id) || c_.FusionOff(id)) return false;
  const NodeId input = node.inputs[0], base = c_.base(input);
  const View view = c_.graph.ViewOf(input);
  const bool same = view == c_.graph.ViewOf(rows.input);  // the same tensor, or one with the same layout
  return view.shape() == rows.domain && node.As<ir::ReduceAttrs>().axes == rows.axes &&
         (same || ir::IsDense(view, rows.domain.elements())) && !c_.InGroup(base, group) &&
         c_.SamePlace(c_.groups[group].nodes[0], id) && TakesReduction(c_.groups[group], id);
}

// Adds a reduction of the cluster's own input, or one whose result members read.
bool Grouping::TryBeside(const Rows& rows, int group, Kinds* kinds, NodeId id) {
  if (!CanReduceBeside(rows, group, id)) return false;
  const std::vector<NodeId>& members = c_.groups[group].nodes;
  if (cycles_.WouldCycleAsReader(members, id) || cycles_.WouldCycleAsProducer(members, id)) return false;
  if (!budget_.Take(c_.groups[group], id)) return false;
  Join(&c_.groups[group], id);
  (*kinds)[id] = Kind::kRow;
  c_.groups[group].rows.push_back(id);
  AbsorbElements(rows, group, kinds, {id});
  return true;
}

// Whether it is derived, by pointwise steps, from a reduction that can be added.
bool Grouping::LeadsToReductionBeside(const Rows& rows, int group, NodeId id, int depth) const {
  constexpr int kMostDepth = 4;
  const Node& node = c_.node(id);
  if (node.op != Op::kPointwise || !Free(id)) return CanReduceBeside(rows, group, id);
  return depth < kMostDepth && std::any_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
           return LeadsToReductionBeside(rows, group, c_.base(input), depth + 1);
         });
}

// Adds a per-row value that only members read, derived from a reduction that can then be added itself.
bool Grouping::TryRowProducer(const Rows& rows, int group, Kinds* kinds, NodeId id) {
  const Node& node = c_.node(id);
  if (node.op != Op::kPointwise || !MayJoin(group, id) || c_.stored[id] || !AllReadersIn(id, group))
    return false;
  if (!LeadsToReductionBeside(rows, group, id, 0) || KindOf(rows, *kinds, id) != Kind::kRow ||
      !c_.SamePlace(c_.groups[group].nodes[0], id) ||
      cycles_.WouldCycleAsProducer(c_.groups[group].nodes, id) || !budget_.Take(c_.groups[group], id))
    return false;
  Join(&c_.groups[group], id);
  (*kinds)[id] = Kind::kRow;
  c_.groups[group].rows.push_back(id);
  return true;
}

bool Grouping::TakeReductionsBeside(const Rows& rows, int group, Kinds* kinds, NodeId member) {
  bool grew = false;
  for (NodeId input : c_.node(member).inputs) {
    const NodeId base = c_.base(input);
    grew |= TryBeside(rows, group, kinds, base) || TryRowProducer(rows, group, kinds, base);
    if (c_.node(member).op != Op::kReduce) continue;
    const std::vector<NodeId> readers = c_.readers[base];
    for (NodeId reader : readers) grew |= TryBeside(rows, group, kinds, reader);
  }
  return grew;
}

// Whether its elements are only written to their places in a larger tensor, for example a padded one: a map
// then computes them there.
bool Grouping::IsMadeForWrite(NodeId id) const {
  while (c_.node(id).op == Op::kPointwise && c_.readers[id].size() == 1 && !c_.stored[id]) {
    const Node& reader = c_.node(c_.readers[id][0]);
    if (reader.op == Op::kIndexedWrite) return c_.base(reader.inputs[0]) != id;
    id = reader.id;
  }
  return false;
}

bool Grouping::TryCluster(const Rows& rows, int group, Kinds* kinds, NodeId id) {
  if (!MayJoin(group, id) || !c_.SamePlace(c_.groups[group].nodes[0], id)) return false;
  // On the host, threads share a single row (a whole tensor), and a map as well.
  const bool single = !c_.options.target.many_threads && rows.reduced.elements() == 1;
  if (single && c_.node(id).shape == rows.domain && IsMadeForWrite(id)) return false;
  // A reduction of what the cluster reads anyway joins too: its producers may first have to.
  Kind kind = KindOf(rows, *kinds, id);
  if (kind == Kind::kNone) return false;
  if (c_.node(id).op == Op::kReduce && !TakesReduction(c_.groups[group], id)) return false;
  if (cycles_.WouldCycleAsReader(c_.groups[group].nodes, id)) return false;
  if (!budget_.Take(c_.groups[group], id)) return false;
  Join(&c_.groups[group], id);
  (*kinds)[id] = kind;
  (kind == Kind::kRow ? c_.groups[group].rows : c_.groups[group].elements).push_back(id);
  AbsorbElements(rows, group, kinds, {id});
  return true;
}

// Whether it is a sum of a collective's result and others: no earlier kernel can compute it, so computing it
// here saves a kernel, even if there are other readers.
bool Grouping::AddsToCollective(NodeId id) const {
  for (NodeId at = id; c_.node(at).op == Op::kPointwise;) {
    const Node& node = c_.node(at);
    const bool only = at == id || (c_.readers[at].size() == 1 && !c_.stored[at] && Free(at));
    if (!only || node.As<ir::PointwiseAttrs>().op != TapeOp::kAdd) return false;
    NodeId next = ir::kNoNode;
    for (NodeId input : node.inputs) {
      const Node& base = c_.node(c_.base(input));
      if (base.op == Op::kCollective) return true;
      // for example that of a bias
      const bool whole = base.op == Op::kPointwise && base.shape.elements() == node.shape.elements();
      if (whole && c_.readers[base.id].size() == 1) next = base.id;
    }
    if (next == ir::kNoNode) return false;
    at = next;
  }
  return false;
}

// Whether all readers of elements of `id` are in the group, or can be once their other inputs are. If they do
// not join in the end, the group stores the value.
bool Grouping::AllMayJoin(const Rows& rows, NodeId id, int group) const {
  const int64_t elements = rows.domain.elements();
  return std::all_of(c_.readers[id].begin(), c_.readers[id].end(), [&](NodeId reader) {
    if (c_.InGroup(reader, group)) return true;
    const Node& node = c_.node(reader);
    if (!MayJoin(group, reader) || c_.FusionOff(reader) || !c_.SamePlace(id, reader)) return false;
    const bool as_it_lies = std::all_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
      return c_.base(input) != id || ir::IsDense(c_.graph.ViewOf(input), elements);
    });
    const bool element = node.op == Op::kPointwise && node.shape.elements() == elements;
    const bool row = node.op == Op::kReduce && node.As<ir::ReduceAttrs>().axes == rows.axes &&
                     c_.graph.ViewOf(node.inputs[0]).shape() == rows.domain;
    return as_it_lies && (element || row);
  });
}

// Absorbs producers of elements, at the same points, without other readers.
void Grouping::AbsorbElements(const Rows& rows, int group, Kinds* kinds, std::vector<NodeId> work) {
  while (!work.empty()) {
    NodeId at = work.back();
    work.pop_back();
    for (NodeId input : c_.node(at).inputs) {
      NodeId base = c_.base(input);
      if (!MayJoin(group, base) || c_.node(base).op != Op::kPointwise || c_.FusionOff(base) ||
          c_.stored[base])
        continue;
      bool element = c_.node(base).shape.elements() == rows.domain.elements() &&
                     ir::IsDense(c_.graph.ViewOf(input), rows.domain.elements());
      if (!element || !c_.SamePlace(c_.groups[group].nodes[0], base)) continue;
      if (!AllReadersIn(base, group) && !AllMayJoin(rows, base, group) && !AddsToCollective(base)) continue;
      if (cycles_.WouldCycleAsProducer(c_.groups[group].nodes, base)) continue;
      if (KindOf(rows, *kinds, base) == Kind::kNone) continue;
      if (!budget_.Take(c_.groups[group], base)) continue;
      Join(&c_.groups[group], base);
      (*kinds)[base] = Kind::kElement;
      c_.groups[group].elements.push_back(base);
      work.push_back(base);
    }
  }
}

}  // namespace rondo::fusion
