#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

using ir::Node;
using ir::NodeId;
using ir::Op;

// A text that equal nodes share and different ones do not.
class Key {
 public:
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
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddConstant(Key* key, const ir::ConstantData& data) {
  constexpr size_t kCompareBytes = 1 << 20;  // larger ones are equal only if they are the same memory
  key->Add(data.synthetic);
  if (data.synthetic) {
    key->Add(data.synthetic_key);
    key->Add(data.synthetic_scale);
  } else if (data.bytes.size() <= kCompareBytes) {
    key->Add(std::string(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size()));
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
  }
  void operator()(const ir::IotaAttrs& a) { key->Add(a.axis); }
  void operator()(const ir::ReduceAttrs& a) {
    key->Add(a.kind);
    key->AddAll(a.axes);
    key->Add(a.last_index);
  }
  void operator()(const ir::ConvAttrs& a) {
    for (const auto* list : {&a.strides, &a.dilations, &a.pads_begin, &a.pads_end}) key->AddAll(*list);
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
    key->Add(a.nan_to_zero);
  }
  void operator()(const ir::LoopAttrs& a) {
    key->Add(a.info.get());
    key->Add(a.output);
  }
  void operator()(const ir::CallAttrs& a) {
    key->Add(a.info->key);
    key->Add(a.output);
    if (!a.info->IsPure()) key->Add(a.info.get());  // like no other
  }
  void operator()(const ir::CollectiveAttrs& a) {
    key->Add(a.op);
    key->Add(a.devices);
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

std::string KeyOf(const Node& n) {
  Key key;
  key.Add(n.op);
  key.Add(n.dtype);
  key.AddShape(n.shape);
  std::visit(AddAttrs{&key}, n.attrs);
  std::vector<NodeId> inputs = n.inputs;
  if (Commutes(n)) std::sort(inputs.begin(), inputs.end());
  key.AddAll(inputs);
  for (const auto& [name, value] : n.annotations) {
    key.Add(name);
    key.Add(value);
  }
  return key.Take();
}

}  // namespace

Result<PassResult> EliminateCommonSubexpressions(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  std::unordered_map<std::string, NodeId> first;
  for (NodeId id : graph->TopologicalOrder()) {
    const Node& node = graph->node(id);
    if (node.op == Op::kInput) continue;
    auto [it, added] = first.emplace(KeyOf(node), id);
    if (added || !graph->CanReplace(id, it->second)) continue;
    graph->Replace(id, it->second);
    ++result.changes;
  }
  Tidy(graph);
  result.text = Count(result.changes, "repeated node");
  return result;
}

}  // namespace rondo::passes
