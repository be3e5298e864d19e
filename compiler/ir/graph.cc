#include "compiler/ir/graph.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "compiler/ir/loop.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/ir/packed.h"
#include "core/scalar.h"
#include "core/synthetic.h"

namespace rondo::ir {

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

namespace {

std::shared_ptr<const ConstantData> Widened(const ConstantData& data) {
  const std::vector<float> values = Unpacked(*data.packed);
  std::vector<uint8_t> bytes(static_cast<size_t>(data.byte_size()));
  for (size_t i = 0; i < values.size(); ++i)
    scalar::Store<float>(data.dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
  auto out = std::make_shared<ConstantData>(*ConstantData::Own(data.dtype, data.shape, std::move(bytes)));
  out->name = data.name;
  return out;
}

}  // namespace

std::shared_ptr<const ConstantData> WithBytes(const std::shared_ptr<const ConstantData>& data) {
  if (!data->synthetic) return data;
  if (data->packed != nullptr) return Widened(*data);
  std::vector<uint8_t> bytes(static_cast<size_t>(data->byte_size()));
  FillSyntheticRuns(data->dtype, data->synthetic_key, data->synthetic_scale,
                    static_cast<uint64_t>(data->synthetic_run), static_cast<uint64_t>(data->synthetic_step),
                    0, static_cast<uint64_t>(data->shape.elements()), bytes.data());
  auto out = std::make_shared<ConstantData>(*ConstantData::Own(data->dtype, data->shape, std::move(bytes)));
  out->name = data->name;
  return out;
}

AttentionInputs AttentionInputsOf(const Node& attention) {
  const AttentionAttrs& a = attention.As<AttentionAttrs>();
  const std::vector<NodeId>& in = attention.inputs;
  size_t next = 3;
  AttentionInputs inputs{in[0], in[1], in[2]};
  if (a.has_mask) inputs.mask = in[next++];
  if (a.has_limit) inputs.limit = in[next++];
  if (a.has_sink) inputs.sink = in[next];
  return inputs;
}

namespace {

// The work of passes on the node, as a number of elementwise nodes. A reduction is fused step by step, and a
// loop's body is a graph of its own.
int64_t WorkOf(const Node& node) {
  constexpr int64_t kReduceWork = 8, kLoopWork = 32;
  if (node.op == Op::kReduce) return kReduceWork;
  return node.op == Op::kLoop ? kLoopWork + node.As<LoopAttrs>().info->body.added_nodes : 1;
}

// The approximate memory of the node. A constant's elements are counted where they are made.
int64_t BytesOf(const Node& node) {
  size_t bytes = sizeof(Node) + node.inputs.size() * sizeof(NodeId);
  if (node.op == Op::kView) bytes += node.As<ViewAttrs>().view.steps.size() * sizeof(ViewStep);
  for (const std::string& source : node.sources) bytes += sizeof(source) + source.size();
  for (const auto& [key, value] : node.annotations) bytes += 4 * sizeof(key) + key.size() + value.size();
  return static_cast<int64_t>(bytes);
}

}  // namespace

bool FoldingBudget::Spend(int64_t work_needed, int64_t bytes_needed) {
  if (work_needed > work || bytes_needed > bytes) return false;
  work -= work_needed;
  bytes -= bytes_needed;
  return true;
}

NodeId Graph::Add(Node node) {
  Changed();
  added_nodes += WorkOf(node);
  added_bytes += BytesOf(node);
  for (const auto& [key, value] : node.annotations) annotated = annotated || Binds(key, value);
  node.id = size();
  return nodes_.push_back(std::move(node)).id;
}

View Graph::ViewOf(NodeId id) const {
  const Node& n = node(id);
  return n.op == Op::kView ? n.As<ViewAttrs>().view : DenseView(n.shape);
}

Users Graph::AllUsers() const {
  Users users;
  users.first_.assign(nodes_.size() + 2, 0);
  std::vector<NodeId> last(nodes_.size(), kNoNode);  // the last reader seen of each node
  const auto each = [&](const auto& visit) {
    std::fill(last.begin(), last.end(), kNoNode);
    for (const Node& n : nodes_) {
      if (n.dead) continue;
      for (NodeId in : n.inputs) {
        NodeId& seen = last[static_cast<size_t>(in)];
        if (seen != n.id) visit(static_cast<size_t>(in), n.id);
        seen = n.id;
      }
    }
  };
  each([&](size_t in, NodeId) { ++users.first_[in + 2]; });
  for (size_t i = 2; i < users.first_.size(); ++i) users.first_[i] += users.first_[i - 1];
  users.list_.resize(users.first_.back());
  each([&](size_t in, NodeId by) { users.list_[users.first_[in + 1]++] = by; });
  return users;
}

bool Graph::ComesAfterAll(const Node& n) const {
  for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
    for (NodeId in : *list) {
      if (in >= n.id && !node(in).dead) return false;
    }
  }
  return true;
}

std::vector<NodeId> Graph::TopologicalOrder() const {
  std::vector<NodeId> order;
  order.reserve(nodes_.size());
  bool in_order = true;
  for (const Node& n : nodes_) {
    if (n.dead) continue;
    in_order = in_order && ComesAfterAll(n);
    order.push_back(n.id);
  }
  if (in_order) return order;
  order.clear();
  // The successors of all nodes in one list, those of a node next to each other.
  std::vector<size_t> first(nodes_.size() + 2, 0);
  std::vector<int> waiting(nodes_.size(), 0);
  size_t live = 0;
  const auto each_edge = [&](const auto& visit) {
    for (const Node& n : nodes_) {
      if (n.dead) continue;
      for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
        for (NodeId in : *list) {
          if (!node(in).dead) visit(static_cast<size_t>(in), n.id);
        }
      }
    }
  };
  each_edge([&](size_t in, NodeId) { ++first[in + 2]; });
  for (size_t i = 2; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<NodeId> next(first.back());
  each_edge([&](size_t in, NodeId id) {
    next[first[in + 1]++] = id;
    ++waiting[static_cast<size_t>(id)];
  });
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (const Node& n : nodes_) {
    if (n.dead) continue;
    ++live;
    if (waiting[static_cast<size_t>(n.id)] == 0) ready.push(n.id);
  }
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (size_t i = first[static_cast<size_t>(id)]; i < first[static_cast<size_t>(id) + 1]; ++i) {
      if (--waiting[static_cast<size_t>(next[i])] == 0) ready.push(next[i]);
    }
  }
  if (order.size() != live) order.clear();
  return order;
}

bool IsAssertion(const Node& node) {
  return node.op == Op::kPointwise && node.As<PointwiseAttrs>().op == TapeOp::kAssertFinite;
}

bool HasEffect(const Node& node) {
  if (IsAssertion(node)) return true;
  if (node.op == Op::kCollective) return node.As<CollectiveAttrs>().op == CollectiveOp::kSend;
  return node.op == Op::kCall && node.As<CallAttrs>().info->side_effects;
}

bool CombinesIntoOne(const Node& node) {
  if (node.op != Op::kIndexedWrite || node.dtype != DType::kF32 || node.shape.elements() != 1) return false;
  const IndexedAttrs& attrs = node.As<IndexedAttrs>();
  return attrs.dims.empty() &&
         (attrs.combine == ScatterCombine::kMax || attrs.combine == ScatterCombine::kMin);
}

bool AddsUpLeftSide(const Graph& graph, const Node& node) {
  if ((node.op != Op::kMatMul && node.op != Op::kConv) || node.inputs.size() != 2) return false;
  if (node.dtype != DType::kI32 || ByteSize(graph.node(node.inputs[1]).dtype) != 1) return false;
  const View view = graph.ViewOf(node.inputs[1]);
  if (!view.affine()) return false;
  const std::vector<IndexDim> dims = JoinedDims(view.steps[0]);
  return std::all_of(dims.begin(), dims.end(), [](const IndexDim& dim) { return dim.stride == 0; });
}

int Graph::RemoveDead() {
  if (pruned_) return 0;
  // Visits nodes from the last to the first. Most named nodes have lower ids; the few others wait on the
  // stack.
  std::vector<char> needed(nodes_.size(), 0);
  std::vector<NodeId> ahead;
  NodeId at = size();
  bool unneeded = false;  // a live node was not needed when visited; one visited later may still need it
  const auto need = [&](NodeId id) {
    if (needed[static_cast<size_t>(id)] != 0) return;
    needed[static_cast<size_t>(id)] = 1;
    if (id >= at) ahead.push_back(id);
  };
  const auto need_what = [&](NodeId id) {
    for (NodeId in : node(id).inputs) need(in);
    for (NodeId in : node(id).strong_after) need(in);
  };
  for (const GraphOutput& out : outputs) need(out.node);
  for (const GraphInput& in : inputs) need(in.node);
  while (at-- > 0) {
    const Node& n = node(at);
    if (!n.dead && HasEffect(n)) needed[static_cast<size_t>(at)] = 1;
    if (needed[static_cast<size_t>(at)] != 0) {
      need_what(at);
    } else {
      unneeded = unneeded || !n.dead;
    }
    while (!ahead.empty()) {
      const NodeId id = ahead.back();
      ahead.pop_back();
      need_what(id);
    }
  }
  if (!unneeded) {
    pruned_ = true;
    return 0;
  }
  const bool ordered = std::any_of(nodes_.begin(), nodes_.end(),
                                   [](const Node& n) { return !n.dead && !n.weak_after.empty(); });
  int removed = 0;
  for (Node& n : nodes_) {
    if (n.dead || needed[static_cast<size_t>(n.id)] != 0) continue;
    Bury(&n, ordered);
    ++removed;
  }
  pruned_ = true;
  return removed;
}

int Graph::RemoveUnused(std::vector<NodeId> nodes) {
  int removed = 0;
  while (!nodes.empty()) {
    const NodeId id = nodes.back();
    nodes.pop_back();
    Node& n = node(id);
    if (n.dead || n.op == Op::kInput || IsNeeded(id)) continue;
    Bury(&n, true);
    ++removed;
    nodes.insert(nodes.end(), n.inputs.begin(), n.inputs.end());
    nodes.insert(nodes.end(), n.strong_after.begin(), n.strong_after.end());
  }
  return removed;
}

void Graph::Compact() {
  if (compact_) return;
  const std::vector<NodeId> order = TopologicalOrder();
  if (order.empty() && std::any_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return !n.dead; }))
    return;  // a cycle: left for Validate to name
  compact_ = true;
  ForgetNames();
  if (order.size() == nodes_.size() && std::is_sorted(order.begin(), order.end())) return;
  std::vector<NodeId> renumbered(nodes_.size(), kNoNode);
  for (size_t i = 0; i < order.size(); ++i)
    renumbered[static_cast<size_t>(order[i])] = static_cast<NodeId>(i);
  const auto renumber = [&](std::vector<NodeId>* list) {
    size_t kept = 0;
    for (NodeId id : *list) {
      const NodeId now = renumbered[static_cast<size_t>(id)];
      if (now != kNoNode) (*list)[kept++] = now;
    }
    list->resize(kept);
  };
  const auto settle = [&](Node* n) {
    n->id = renumbered[static_cast<size_t>(n->id)];
    renumber(&n->inputs);
    renumber(&n->weak_after);
    renumber(&n->strong_after);
  };
  if (std::is_sorted(order.begin(), order.end())) {
    for (size_t i = 0; i < order.size(); ++i) {
      Node& n = node(order[i]);
      settle(&n);
      if (static_cast<size_t>(order[i]) != i) nodes_[i] = std::move(n);
    }
    nodes_.Truncate(order.size());
  } else {
    Chunked<Node> nodes;
    for (NodeId id : order) settle(&nodes.push_back(std::move(node(id))));
    nodes_ = std::move(nodes);
  }
  for (GraphInput& in : inputs) in.node = renumbered[static_cast<size_t>(in.node)];
  for (GraphOutput& out : outputs) out.node = renumbered[static_cast<size_t>(out.node)];
}

void SourceList::Add(const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    if (known_.insert(source).second) list_.push_back(source);
  }
}

void MergeSources(std::vector<std::string>* to, const std::vector<std::string>& from) {
  for (const std::string& source : from) {
    if (std::find(to->begin(), to->end(), source) == to->end()) to->push_back(source);
  }
}

}  // namespace rondo::ir
