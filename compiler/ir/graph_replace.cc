// Replacement of a node by another: its readers, and the control edges before and after it.
#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "compiler/ir/graph.h"
#include "compiler/ir/node_annotation.h"

namespace rondo::ir {

namespace {

bool Has(const std::vector<NodeId>& list, NodeId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

void AddUnique(std::vector<NodeId>* list, NodeId id) {
  if (!Has(*list, id)) list->push_back(id);
}

// Nodes that run nothing; a control edge to or from one would order nothing.
bool RunsNothing(const Node& node) { return node.op == Op::kInput || node.op == Op::kConstant; }

// Redirects edges of `list` from `from` to `to` (kNoNode: to all of `bridge`), but never to `self`. Returns
// whether there were any.
bool Redirect(std::vector<NodeId>* list, NodeId self, NodeId from, NodeId to,
              const std::vector<NodeId>& bridge) {
  if (!Has(*list, from)) return false;
  std::vector<NodeId> out;
  for (NodeId id : *list) {
    if (id != from) {
      AddUnique(&out, id);
    } else if (to == kNoNode) {
      for (NodeId b : bridge) {
        if (b != self) AddUnique(&out, b);
      }
    } else if (to != self) {
      AddUnique(&out, to);
    }
  }
  *list = std::move(out);
  return true;
}

}  // namespace

// The most mentions of a node that are looked at, dead ones included. A node with more counts as needed by
// another node.
constexpr int kMostAsked = 64;
// The most sources of a node. If thousands of nodes become one, it keeps the first sources; the plan reports
// the others as gone.
constexpr size_t kMostSources = 2048;

std::vector<NodeId> Graph::NeededOnlyBy(NodeId from, NodeId to) {
  Index();
  std::vector<NodeId> only = {from};
  std::unordered_set<NodeId> in = {from};
  std::vector<NodeId> ahead(node(from).inputs);
  const auto needed_elsewhere = [&](NodeId id) {
    if (id == to || IsOutput(id) || HasEffect(node(id)) || RunsNothing(node(id))) return true;
    int asked = 0;
    for (int at = named_by_[static_cast<size_t>(id)]; at >= 0; at = mentions_[static_cast<size_t>(at)].next) {
      const NodeId by = mentions_[static_cast<size_t>(at)].by;
      if (++asked > kMostAsked) return true;
      if (by >= size() || node(by).dead || in.count(by) != 0) continue;
      if (Has(node(by).inputs, id) || Has(node(by).strong_after, id)) return true;
    }
    return false;
  };
  // A node needed elsewhere is asked about again when another of its readers joins the set.
  while (!ahead.empty()) {
    const NodeId id = ahead.back();
    ahead.pop_back();
    if (in.count(id) != 0 || needed_elsewhere(id)) continue;
    in.insert(id);
    only.push_back(id);
    ahead.insert(ahead.end(), node(id).inputs.begin(), node(id).inputs.end());
  }
  return only;
}

Graph::Order Graph::OrderOf(const std::vector<NodeId>& nodes, NodeId target) {
  const std::unordered_set<NodeId> among(nodes.begin(), nodes.end());
  const auto outside = [&](NodeId id) { return id != target && among.count(id) == 0; };
  Order order;
  for (NodeId id : nodes) {
    for (const std::vector<NodeId>* list : {&node(id).weak_after, &node(id).strong_after})
      std::copy_if(list->begin(), list->end(), std::back_inserter(order.before), outside);
    for (NodeId by : Naming(id)) {
      if (outside(by) && (Has(node(by).weak_after, id) || Has(node(by).strong_after, id)))
        order.after.push_back(by);
    }
  }
  return order;
}

namespace {

// `but_choices`: ignores annotations that are choices.
bool AreAlike(const Node& a, const Node& b, bool but_choices) {
  if (a.annotations.empty() && b.annotations.empty()) return true;
  const auto same = [&](std::string_view key) {
    const auto on_a = a.annotations.find(std::string(key)), on_b = b.annotations.find(std::string(key));
    if (on_a == a.annotations.end() || on_b == b.annotations.end())
      return on_a == a.annotations.end() && on_b == b.annotations.end();
    return on_a->second == on_b->second;
  };
  const auto passes = [&](std::string_view key) { return (but_choices && IsChoice(key)) || same(key); };
  return std::all_of(std::begin(kBindingKeys), std::end(kBindingKeys), passes) && same(kOwnerKey) &&
         same(kChunkKey);
}

}  // namespace

bool BoundAlike(const Node& a, const Node& b) { return AreAlike(a, b, false); }

bool MayShareKernel(const Node& a, const Node& b) {
  return AreAlike(a, b, !IsContraction(a.op) || !IsContraction(b.op));
}

bool Graph::KeepsAnnotations(NodeId from, NodeId to) {
  if (!annotated || IsConstant(BaseOf(to))) return true;
  const auto computes = [&](NodeId id) { return !RunsNothing(node(id)) && node(id).op != Op::kView; };
  std::vector<NodeId> nodes = NeededOnlyBy(from, to);
  std::erase_if(nodes, [&](NodeId id) { return !computes(id); });
  const size_t gone = nodes.size();
  if (gone == 0) return true;
  if (Naming(to).empty() && !IsOutput(to)) {
    const std::vector<NodeId> made = NeededOnlyBy(to, from);
    std::copy_if(made.begin(), made.end(), std::back_inserter(nodes), computes);
  }
  // A node that existed before does not stand for a bound node. Otherwise all nodes must be bound alike.
  if (nodes.size() == gone &&
      std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return !BoundAlike(node(id), Node()); }))
    return false;
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](NodeId id) { return BoundAlike(node(id), node(nodes[0])); });
}

bool Graph::CanReplace(NodeId from, NodeId to) {
  if (!KeepsAnnotations(from, to)) return false;
  // What comes after `from` will come after `to`, and `to` will come after all that `from` comes after.
  const NodeId target = BaseOf(to);
  if (RunsNothing(node(target))) return true;
  const Order order = OrderOf(ordered ? NeededOnlyBy(from, to) : std::vector<NodeId>{from}, target);
  for (NodeId before : order.before) {
    if (Reaches(target, before)) return false;
  }
  if (!ordered) return true;
  return std::none_of(order.after.begin(), order.after.end(), [&](NodeId after) {
    return Reaches(after, target) || std::any_of(order.before.begin(), order.before.end(),
                                                 [&](NodeId before) { return Reaches(after, before); });
  });
}

void Graph::RedirectControl(NodeId by, std::vector<NodeId>* list, NodeId from, NodeId to,
                            const std::vector<NodeId>& bridge) {
  if (!Redirect(list, by, from, to, bridge)) return;
  for (NodeId id : *list) Named(id, by);
}

void Graph::Replace(NodeId from, NodeId to) {
  if (from == to) return;
  Touch(to);
  // `to` takes over the sources of the nodes that only `from` needs. If `to` is a view whose base was made
  // for it alone, the base takes them over too. Sources of nodes that are bound otherwise are not taken over.
  const std::vector<NodeId> gone = NeededOnlyBy(from, to);
  const NodeId base = BaseOf(to);
  const auto read_by_one = [&](NodeId id, NodeId reader) {
    int asked = 0;
    for (int at = named_by_[static_cast<size_t>(id)]; at >= 0; at = mentions_[static_cast<size_t>(at)].next) {
      const NodeId by = mentions_[static_cast<size_t>(at)].by;
      if (++asked > kMostAsked) return false;
      if (by != reader && by < size() && !node(by).dead && Has(node(by).inputs, id)) return false;
    }
    return true;
  };
  const bool made = base != to && !RunsNothing(node(base)) && read_by_one(base, to);
  for (NodeId id : {to, base}) {
    if (id != to && !made) continue;
    Touch(id);
    const auto take = [&](NodeId part) {
      const bool room = node(id).sources.size() < kMostSources;
      if (room && (!annotated || BoundAlike(node(part), node(id))))
        MergeSources(&node(id).sources, node(part).sources);
    };
    for (NodeId part : gone) {
      take(part);
      for (NodeId input : node(part).inputs) {
        if (IsConstant(input) && read_by_one(input, part)) take(input);
      }
    }
  }
  ReplaceUses(from, to);
}

// The nodes that only `from` needs are about to die: `to` stands for them in control edges too.
void Graph::MoveInnerOrder(NodeId from, NodeId to) {
  const NodeId target = BaseOf(to);
  if (!ordered || RunsNothing(node(target)) || !CanReplace(from, to)) return;
  std::vector<NodeId> inner = NeededOnlyBy(from, to);
  inner.erase(inner.begin());  // `from` itself: ReplaceUses moves its edges
  const Order order = OrderOf(inner, target);
  for (NodeId before : order.before) {
    if (before == from || Has(node(target).strong_after, before)) continue;
    const bool strong = std::any_of(inner.begin(), inner.end(),
                                    [&](NodeId id) { return Has(node(id).strong_after, before); });
    if (strong || !Has(node(target).weak_after, before)) RunAfter(target, before, strong);
  }
  for (NodeId after : order.after) {
    Touch(after);
    for (NodeId id : inner) RedirectControl(after, &node(after).weak_after, id, target, {});
  }
}

void Graph::ReplaceUses(NodeId from, NodeId to) {
  Changed();
  if (from == to) return;
  MoveInnerOrder(from, to);
  const std::vector<NodeId> weak = node(from).weak_after, strong = node(from).strong_after;
  NodeId target = BaseOf(to);
  const bool bridge = RunsNothing(node(target));
  Index();
  for (NodeId id : {from, to, target}) Touch(id);
  if (!bridge) {
    for (const auto& [list, added] :
         {std::pair(&node(target).weak_after, &weak), {&node(target).strong_after, &strong}}) {
      for (NodeId id : *added) {
        if (id == target) continue;
        AddUnique(list, id);
        Named(id, target);
      }
    }
  }
  const View to_view = ViewOf(to);
  const bool to_is_view = node(to).op == Op::kView;
  for (NodeId by : Naming(from)) {
    Node& n = node(by);
    if (by == from) continue;
    Touch(by);
    RedirectControl(by, &n.weak_after, from, bridge ? kNoNode : target, weak);
    RedirectControl(by, &n.strong_after, from, bridge ? kNoNode : target, strong);
    if (by == to) continue;
    for (NodeId& in : n.inputs) {
      if (in != from) continue;
      if (n.op == Op::kView && to_is_view) {
        n.As<ViewAttrs>().view = Compose(to_view, n.As<ViewAttrs>().view);
        in = target;
      } else {
        in = to;
      }
      Named(in, by);
    }
  }
  if (auto ports = outputs_of_.extract(from)) {
    for (size_t output : ports.mapped()) {
      if (outputs[output].node != from) continue;
      TouchOutput(output);
      outputs[output].node = to;
      outputs_of_[to].push_back(output);
    }
  }
  Node& old = node(from);
  if (node(to).name.empty()) node(to).name = old.name;
  if (old.op == Op::kInput) return;
  old.dead = true;
  old.weak_after.clear();
  old.strong_after.clear();
}

}  // namespace rondo::ir
