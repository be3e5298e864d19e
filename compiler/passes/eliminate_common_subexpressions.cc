#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

// A text that is the same exactly for equal nodes. Its memory is reused from node to node.
class Key {
 public:
  void Clear() { text_.clear(); }
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Add(const std::string& s) {
    Add(s.size());
    text_ += s;
  }
  template <typename T>
  void AddAll(const std::vector<T>& list) {
    Add(list.size());
    for (const T& v : list) Add(v);
  }
  void AddShape(const Shape& shape) {
    Add(shape.rank);
    for (int64_t d : shape) Add(d);
  }
  void AddView(const ir::View& view) {
    Add(view.steps.size());
    for (const ir::ViewStep& step : view.steps) {
      AddShape(step.shape);
      Add(step.offset);
      for (int d = 0; d < step.shape.rank; ++d) Add(step.shape[d] > 1 ? step.strides[d] : int64_t{0});
    }
  }
  void Add(std::span<const uint8_t> bytes) {
    Add(bytes.size());
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddConstant(Key* key, const ir::ConstantData& data) {
  constexpr size_t kCompareBytes = 1 << 20;  // larger ones are only equal if they share memory
  key->Add(data.synthetic);
  key->Add(data.packed.get());
  key->Add(data.part_of.get());  // shares that are equal on one device may differ on others
  if (data.synthetic) {
    key->Add(data.synthetic_key);
    key->Add(data.synthetic_scale);
    key->Add(data.synthetic_run);
    key->Add(data.synthetic_step);
  } else if (data.bytes.size() <= kCompareBytes) {
    key->Add(data.bytes);
  } else {
    key->Add(data.bytes.data());
  }
}

struct AddAttrs {
  Key* key;
  void operator()(const std::monostate&) {}
  void operator()(const ir::InputAttrs& a) { key->Add(a.index); }
  void operator()(const ir::ConstantAttrs& a) { AddConstant(key, *a.data); }
  void operator()(const ir::ViewAttrs& a) { key->AddView(a.view); }
  void operator()(const ir::PointwiseAttrs& a) {
    key->Add(a.op);
    key->Add(a.immediate);
    key->Add(a.drops_uncached);
  }
  void operator()(const ir::IotaAttrs& a) { key->Add(a.axis); }
  void operator()(const ir::ReduceAttrs& a) {
    key->Add(a.kind);
    key->AddAll(a.axes);
    key->Add(a.last_index);
  }
  void operator()(const ir::ConvAttrs& a) {
    for (const auto* list : {&a.strides, &a.dilations, &a.pads_begin, &a.pads_end}) key->AddAll(*list);
    key->Add(a.absent);
    key->Add(a.groups);
  }
  void operator()(const ir::PoolAttrs& a) {
    key->Add(a.kind);
    for (const auto* list : {&a.kernel, &a.strides, &a.dilations, &a.pads_begin, &a.pads_end})
      key->AddAll(*list);
  }
  void operator()(const ir::IndexedAttrs& a) {
    key->AddView(a.map);
    for (const ir::IndexedDim& d : a.dims) {
      key->Add(d.stride);
      key->Add(d.extent);
      key->Add(d.wrap);
      key->Add(d.fault);
    }
    key->Add(a.combine);
    key->Add(a.may_collide);
  }
  void operator()(const ir::ConcatAttrs& a) { key->Add(a.axis); }
  void operator()(const ir::AttentionAttrs& a) {
    key->Add(a.scale);
    key->Add(a.softcap);
    key->Add(a.has_mask);
    key->Add(a.has_limit);
    key->Add(a.has_sink);
    key->Add(a.nan_to_zero);
    key->Add(a.limit_is_cached);
  }
  void operator()(const ir::PackedAttrs& a) {
    key->Add(a.weights.type);
    key->Add(a.weights.dtype);
    key->Add(a.weights.block);
    key->Add(a.weights.zero);
    key->Add(a.has_zeros);
  }
  void operator()(const ir::LoopAttrs& a) {
    key->Add(a.info.get());
    key->Add(a.output);
  }
  void operator()(const ir::CallAttrs& a) {
    key->Add(a.info->key);
    key->Add(a.output);
    if (!a.info->IsPure()) key->Add(a.info.get());  // unique
  }
  void operator()(const ir::CollectiveAttrs& a) {
    key->Add(a.op);
    key->Add(a.devices);
    for (uint32_t device : a.group) key->Add(device);
    if (a.op == CollectiveOp::kSend) key->Add(&a);  // unique
  }
};

bool Commutes(const Node& n) {
  if (n.op != Op::kPointwise) return false;
  switch (n.As<ir::PointwiseAttrs>().op) {
    case TapeOp::kAdd:
    case TapeOp::kMul:
    case TapeOp::kMin:
    case TapeOp::kMax:
    case TapeOp::kBitAnd:
    case TapeOp::kBitOr:
    case TapeOp::kBitXor:
    case TapeOp::kEqual: return true;
    default: return false;
  }
}

void Fill(const Node& n, Key* key) {
  key->Clear();
  key->Add(n.op);
  key->Add(n.dtype);
  key->AddShape(n.shape);
  std::visit(AddAttrs{key}, n.attrs);
  if (Commutes(n)) {
    std::vector<NodeId> inputs = n.inputs;
    std::sort(inputs.begin(), inputs.end());
    key->AddAll(inputs);
  } else {
    key->AddAll(n.inputs);
  }
  for (const auto& [name, value] : n.annotations) {
    key->Add(name);
    key->Add(value);
  }
}

// The nodes seen so far, by the hash of their keys; candidates are compared by key. A node's inputs come
// before it, so keys do not change.
class Seen {
 public:
  explicit Seen(const ir::Graph& graph)
      : graph_(graph), next_(static_cast<size_t>(graph.size()), ir::kNoNode) {
    first_.reserve(next_.size());
  }
  // An earlier node equal to `id`; if there is none, adds `id` and returns kNoNode.
  NodeId FindOrAdd(NodeId id) {
    Fill(graph_.node(id), &key_);
    const auto [it, added] = first_.emplace(std::hash<std::string>()(key_.text()), id);
    if (added) return ir::kNoNode;
    for (NodeId other = it->second; other != ir::kNoNode; other = next_[static_cast<size_t>(other)]) {
      Fill(graph_.node(other), &other_key_);
      if (other_key_.text() == key_.text()) return other;
    }
    next_[static_cast<size_t>(id)] = it->second;
    it->second = id;
    return ir::kNoNode;
  }

 private:
  const ir::Graph& graph_;
  std::unordered_map<size_t, NodeId> first_;
  std::vector<NodeId> next_;  // by node: another with the same hash
  Key key_, other_key_;
};

// Gives every node the provenance of those that it replaces, in order and without repeats.
void MergeSources(ir::Graph* graph, const std::vector<std::pair<NodeId, NodeId>>& replaced) {
  std::unordered_map<NodeId, ir::SourceList> merged;
  for (const auto& [from, to] : replaced) {
    const auto [list, first] = merged.try_emplace(to);
    if (first) list->second.Add(graph->node(to).sources);
    list->second.Add(graph->node(from).sources);
  }
  for (auto& [id, list] : merged) graph->node(id).sources = list.Take();
}

}  // namespace

Result<PassResult> EliminateCommonSubexpressions(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  Seen seen(*graph);
  std::vector<std::pair<NodeId, NodeId>> replaced;
  for (NodeId id : graph->TopologicalOrder()) {
    if (graph->node(id).op == Op::kInput) continue;
    // Each matmul computes its own row sums, while it reads its lhs.
    if (ir::AddsUpLeftSide(*graph, graph->node(id))) continue;
    const NodeId first = seen.FindOrAdd(id);
    if (first == ir::kNoNode || !graph->CanReplace(id, first)) continue;
    graph->ReplaceUses(id, first);
    replaced.emplace_back(id, first);
  }
  MergeSources(graph, replaced);
  result.changes = static_cast<int64_t>(replaced.size());
  Tidy(graph);
  result.text = Count(result.changes, "repeated node");
  return result;
}

}  // namespace rondo::passes
