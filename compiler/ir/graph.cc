#include "compiler/ir/graph.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace rondo::ir {

namespace {

void AddUnique(std::vector<NodeId>* list, NodeId id) {
  if (std::find(list->begin(), list->end(), id) == list->end()) list->push_back(id);
}

// Nodes that run nothing: control edges to or from them would order nothing.
bool RunsNothing(const Node& node) { return node.op == Op::kInput || node.op == Op::kConstant; }

// Redirects edges of `list` from `from` to `to` (kNoNode: to all of `bridge`); never to `self`. Whether there
// were any.
bool Redirect(std::vector<NodeId>* list, NodeId self, NodeId from, NodeId to,
              const std::vector<NodeId>& bridge) {
  if (std::find(list->begin(), list->end(), from) == list->end()) return false;
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

std::shared_ptr<const ConstantData> ConstantData::Own(DType dtype, const Shape& shape,
                                                      std::vector<uint8_t> bytes) {
  auto keep = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  auto data = std::make_shared<ConstantData>();
  data->dtype = dtype;
  data->shape = shape;
  data->bytes = std::span<const uint8_t>(keep->data(), keep->size());
  data->keep = keep;
  return data;
}

NodeId Graph::Add(Node node) {
  node.id = size();
  nodes_.push_back(std::move(node));
  return nodes_.back().id;
}

View Graph::ViewOf(NodeId id) const {
  const Node& n = node(id);
  return n.op == Op::kView ? n.As<ViewAttrs>().view : DenseView(n.shape);
}

std::vector<std::vector<NodeId>> Graph::Users() const {
  std::vector<std::vector<NodeId>> users(nodes_.size());
  for (const Node& n : nodes_) {
    if (n.dead) continue;
    for (NodeId in : n.inputs) {
      auto& list = users[static_cast<size_t>(in)];
      if (list.empty() || list.back() != n.id) list.push_back(n.id);
    }
  }
  return users;
}

std::vector<NodeId> Graph::TopologicalOrder() const {
  std::vector<int> waiting(nodes_.size(), 0);
  std::vector<std::vector<NodeId>> next(nodes_.size());
  size_t live = 0;
  for (const Node& n : nodes_) {
    if (n.dead) continue;
    ++live;
    for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
      for (NodeId in : *list) {
        if (node(in).dead) continue;
        next[static_cast<size_t>(in)].push_back(n.id);
        ++waiting[static_cast<size_t>(n.id)];
      }
    }
  }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (const Node& n : nodes_) {
    if (!n.dead && waiting[static_cast<size_t>(n.id)] == 0) ready.push(n.id);
  }
  std::vector<NodeId> order;
  order.reserve(live);
  while (!ready.empty()) {
    NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (NodeId to : next[static_cast<size_t>(id)]) {
      if (--waiting[static_cast<size_t>(to)] == 0) ready.push(to);
    }
  }
  if (order.size() != live) order.clear();
  return order;
}

bool Graph::Reaches(NodeId from, NodeId to) const {
  std::vector<bool> seen(nodes_.size(), false);
  std::vector<NodeId> stack = {to};
  while (!stack.empty()) {
    NodeId id = stack.back();
    stack.pop_back();
    if (id == from) return true;
    if (seen[static_cast<size_t>(id)]) continue;
    seen[static_cast<size_t>(id)] = true;
    const Node& n = node(id);
    for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
      stack.insert(stack.end(), list->begin(), list->end());
    }
  }
  return false;
}

bool Graph::CanReplace(NodeId from, NodeId to) const {
  // What comes after `from` will come after `to`, and `to` after what `from` comes after.
  NodeId target = BaseOf(to);
  if (RunsNothing(node(target))) return true;
  const Node& n = node(from);
  for (const std::vector<NodeId>* list : {&n.weak_after, &n.strong_after}) {
    for (NodeId before : *list) {
      if (before != target && Reaches(target, before)) return false;
    }
  }
  return true;
}

void Graph::Named(NodeId id, NodeId by) {
  if (by < indexed_) named_by_[static_cast<size_t>(id)].nodes.push_back(by);
}

void Graph::RedirectControl(NodeId by, std::vector<NodeId>* list, NodeId from, NodeId to,
                            const std::vector<NodeId>& bridge) {
  if (!Redirect(list, by, from, to, bridge)) return;
  for (NodeId id : *list) Named(id, by);
}

// Takes in what was added since the last time.
void Graph::Index() {
  named_by_.resize(nodes_.size());
  const NodeId first = indexed_;
  indexed_ = size();
  for (NodeId id = first; id < indexed_; ++id) {
    const Node& n = node(id);
    for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
      for (NodeId in : *list) Named(in, id);
    }
  }
  for (; indexed_outputs_ < outputs.size(); ++indexed_outputs_) {
    named_by_[static_cast<size_t>(outputs[indexed_outputs_].node)].outputs.push_back(indexed_outputs_);
  }
}

void Graph::SetInput(NodeId id, size_t slot, NodeId to) {
  node(id).inputs[slot] = to;
  Index();
  Named(to, id);
}

void Graph::RunAfter(NodeId id, NodeId before, bool strong) {
  (strong ? node(id).strong_after : node(id).weak_after).push_back(before);
  Index();
  Named(before, id);
}

void Graph::SetOutput(size_t output, NodeId node) {
  outputs[output].node = node;
  Index();
  named_by_[static_cast<size_t>(node)].outputs.push_back(output);
}

std::vector<NodeId> Graph::Naming(NodeId id) {
  Index();
  std::vector<NodeId>& list = named_by_[static_cast<size_t>(id)].nodes;
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  auto names = [&](NodeId by) {
    const Node& n = node(by);
    if (n.dead) return false;
    return std::find(n.inputs.begin(), n.inputs.end(), id) != n.inputs.end() ||
           std::find(n.weak_after.begin(), n.weak_after.end(), id) != n.weak_after.end() ||
           std::find(n.strong_after.begin(), n.strong_after.end(), id) != n.strong_after.end();
  };
  list.erase(std::remove_if(list.begin(), list.end(), [&](NodeId by) { return !names(by); }), list.end());
  return list;
}

std::vector<NodeId> Graph::UsersOf(NodeId id) {
  std::vector<NodeId> users = Naming(id);
  std::erase_if(users, [&](NodeId by) {
    const std::vector<NodeId>& in = node(by).inputs;
    return std::find(in.begin(), in.end(), id) == in.end();
  });
  return users;
}

bool Graph::IsOutput(NodeId id) {
  Index();
  const std::vector<size_t>& ports = named_by_[static_cast<size_t>(id)].outputs;
  return std::any_of(ports.begin(), ports.end(), [&](size_t port) { return outputs[port].node == id; });
}

void Graph::Replace(NodeId from, NodeId to) {
  if (from == to) return;
  const std::vector<NodeId> weak = node(from).weak_after, strong = node(from).strong_after;
  NodeId target = BaseOf(to);
  const bool bridge = RunsNothing(node(target));
  Index();
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
  MergeSources(&node(to).sources, node(from).sources);
  const View to_view = ViewOf(to);
  const bool to_is_view = node(to).op == Op::kView;
  for (NodeId by : Naming(from)) {
    Node& n = node(by);
    if (by == from) continue;
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
  std::vector<size_t>& ports = named_by_[static_cast<size_t>(from)].outputs;
  for (size_t output : ports) {
    if (outputs[output].node != from) continue;
    outputs[output].node = to;
    named_by_[static_cast<size_t>(to)].outputs.push_back(output);
  }
  ports.clear();
  Node& old = node(from);
  if (node(to).name.empty()) node(to).name = old.name;
  if (old.op == Op::kInput) return;
  old.dead = true;
  old.weak_after.clear();
  old.strong_after.clear();
}

int Graph::RemoveDead() {
  std::vector<bool> needed(nodes_.size(), false);
  std::vector<NodeId> stack;
  for (const GraphOutput& out : outputs) stack.push_back(out.node);
  for (const GraphInput& in : inputs) stack.push_back(in.node);
  for (const Node& n : nodes_) {
    if (!n.dead && n.op == Op::kCall && n.As<CallAttrs>().info->side_effects) stack.push_back(n.id);
  }
  while (!stack.empty()) {
    NodeId id = stack.back();
    stack.pop_back();
    if (needed[static_cast<size_t>(id)]) continue;
    needed[static_cast<size_t>(id)] = true;
    const Node& n = node(id);
    stack.insert(stack.end(), n.inputs.begin(), n.inputs.end());
    stack.insert(stack.end(), n.strong_after.begin(), n.strong_after.end());
  }
  const bool ordered = std::any_of(nodes_.begin(), nodes_.end(),
                                   [](const Node& n) { return !n.dead && !n.weak_after.empty(); });
  int removed = 0;
  for (Node& n : nodes_) {
    if (n.dead || needed[static_cast<size_t>(n.id)]) continue;
    Bury(&n, ordered);
    ++removed;
  }
  return removed;
}

void Graph::Bury(Node* n, bool ordered) {
  // The order that weak edges stated through this node still holds between those that remain.
  const std::vector<NodeId> before = n->weak_after;
  n->dead = true;
  if (!ordered) return;
  for (NodeId by : Naming(n->id)) RedirectControl(by, &node(by).weak_after, n->id, kNoNode, before);
}

int Graph::RemoveUnused(std::vector<NodeId> nodes) {
  int removed = 0;
  while (!nodes.empty()) {
    const NodeId id = nodes.back();
    nodes.pop_back();
    Node& n = node(id);
    const bool stays = n.dead || n.op == Op::kInput || IsOutput(id) ||
                       (n.op == Op::kCall && n.As<CallAttrs>().info->side_effects);
    if (stays) continue;
    const std::vector<NodeId> naming = Naming(id);
    const bool needed = std::any_of(naming.begin(), naming.end(), [&](NodeId by) {
      const Node& user = node(by);
      return std::find(user.inputs.begin(), user.inputs.end(), id) != user.inputs.end() ||
             std::find(user.strong_after.begin(), user.strong_after.end(), id) != user.strong_after.end();
    });
    if (needed) continue;
    Bury(&n, !naming.empty());
    ++removed;
    nodes.insert(nodes.end(), n.inputs.begin(), n.inputs.end());
    nodes.insert(nodes.end(), n.strong_after.begin(), n.strong_after.end());
  }
  return removed;
}

void Graph::Compact() {
  std::vector<NodeId> order = TopologicalOrder();
  const bool any = std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return !n.dead; });
  if (order.empty() && any) return;  // a cycle: left as it is, for Validate to name
  std::vector<NodeId> renumbered(nodes_.size(), kNoNode);
  for (size_t i = 0; i < order.size(); ++i)
    renumbered[static_cast<size_t>(order[i])] = static_cast<NodeId>(i);
  std::deque<Node> nodes;
  auto renumber = [&](std::vector<NodeId>* list) {
    std::vector<NodeId> out;
    for (NodeId id : *list) {
      if (renumbered[static_cast<size_t>(id)] != kNoNode) out.push_back(renumbered[static_cast<size_t>(id)]);
    }
    *list = std::move(out);
  };
  for (NodeId id : order) {
    Node n = std::move(node(id));
    n.id = renumbered[static_cast<size_t>(id)];
    renumber(&n.inputs);
    renumber(&n.weak_after);
    renumber(&n.strong_after);
    nodes.push_back(std::move(n));
  }
  nodes_ = std::move(nodes);
  named_by_.clear();
  indexed_ = 0;
  indexed_outputs_ = 0;
  for (GraphInput& in : inputs) in.node = renumbered[static_cast<size_t>(in.node)];
  for (GraphOutput& out : outputs) out.node = renumbered[static_cast<size_t>(out.node)];
}

void MergeSources(std::vector<std::string>* to, const std::vector<std::string>& from) {
  for (const std::string& source : from) {
    if (std::find(to->begin(), to->end(), source) == to->end()) to->push_back(source);
  }
}

}  // namespace rondo::ir
