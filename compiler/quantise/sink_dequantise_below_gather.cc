// Gathers rows of a quantised table before they are widened and scaled.
#include <algorithm>

#include "compiler/ir/rebase.h"
#include "compiler/passes/rewrite.h"
#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

using ir::IndexedAttrs;

bool Widens(TapeOp op) { return op == TapeOp::kCast || op == TapeOp::kSub || op == TapeOp::kMul; }

class Reading {
 public:
  Reading(Graph* graph, int64_t fold_bytes) : g_(graph), fold_bytes_(fold_bytes) {}

  // The gather of the table's leaves, with the table's arithmetic on the result; kNoNode if `id` does not
  // read a table.
  NodeId Rewritten(NodeId id) {
    const Node& read = g_->node(id);
    const NodeId table = g_->BaseOf(read.inputs[0]);
    const IndexedAttrs attrs = read.As<IndexedAttrs>();
    if (g_->node(table).op != Op::kPointwise || read.shape.elements() >= g_->node(table).shape.elements())
      return kNoNode;
    narrow_ = false;
    bytes_ = ByteSize(g_->node(table).dtype);
    elements_ = g_->node(table).shape.elements();
    if (!IsTable(read.inputs[0], attrs, kMostSteps) || !narrow_) return kNoNode;
    // A small table with other readers is folded, and then better read directly.
    if (elements_ * bytes_ <= fold_bytes_ && !IsOnlyRead(table)) return kNoNode;
    Builder b = BuilderLike(g_, id);
    shape_ = read.shape;
    index_.assign(read.inputs.begin() + 1, read.inputs.end());
    return Read(b, read.inputs[0], attrs);
  }

 private:
  static constexpr int kMostSteps = 8;

  static bool Moves(const IndexedAttrs& attrs) {
    return std::any_of(attrs.dims.begin(), attrs.dims.end(), [](const auto& dim) { return dim.stride != 0; });
  }

  // Whether it is derived from constants by widening, and every part can be gathered as in `attrs`.
  bool IsTable(NodeId id, IndexedAttrs attrs, int steps) {
    if (steps == 0) return false;
    if (g_->node(id).op == Op::kView && !ir::Rebase(g_->ViewOf(id), &attrs)) return false;
    const Node& node = g_->node(g_->BaseOf(id));
    if (node.op == Op::kConstant) {
      narrow_ |= ByteSize(node.dtype) < bytes_ && node.shape.elements() == elements_;
      return node.As<ir::ConstantAttrs>().data->packed == nullptr;
    }
    return node.op == Op::kPointwise && Widens(node.As<ir::PointwiseAttrs>().op) &&
           std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](NodeId in) { return IsTable(in, attrs, steps - 1); });
  }

  bool IsOnlyRead(NodeId id) {
    const std::vector<NodeId> users = g_->UsersOf(id);
    return !g_->IsOutput(id) && std::all_of(users.begin(), users.end(), [&](NodeId user) {
      const Node& n = g_->node(user);
      if (n.op == Op::kView) return IsOnlyRead(user);
      return n.op == Op::kIndexedRead && std::count(n.inputs.begin(), n.inputs.end(), id) == 1 &&
             n.inputs[0] == id;
    });
  }

  NodeId Read(Builder& b, NodeId id, IndexedAttrs attrs) {
    if (g_->node(id).op == Op::kView) ir::Rebase(g_->ViewOf(id), &attrs);
    const NodeId base = g_->BaseOf(id);
    if (g_->node(base).op == Op::kConstant)
      return Moves(attrs) ? b.IndexedRead(base, index_, attrs, shape_) : b.ViewNode(base, attrs.map);
    const ir::PointwiseAttrs work = g_->node(base).As<ir::PointwiseAttrs>();
    const DType dtype = g_->node(base).dtype;
    std::vector<NodeId> inputs = g_->node(base).inputs;
    for (NodeId& input : inputs) input = Read(b, input, attrs);
    return b.Pointwise(work, dtype, inputs);
  }

  Graph* g_;
  const int64_t fold_bytes_;
  bool narrow_ = false;  // a constant has a narrower type than the result
  int64_t bytes_ = 0, elements_ = 0;
  Shape shape_;
  std::vector<NodeId> index_;
};

}  // namespace

int64_t SinkDequantiseBelowGather(Graph* graph, int64_t fold_bytes) {
  Reading reading(graph, fold_bytes);
  const auto narrow = [&](Match& m) { return reading.Rewritten(m.root()); };
  return Total(ApplyOnce(graph, {{Op::kIndexedRead, narrow}}));
}

}  // namespace rondo::passes
