// PadMasks: 16-bit attention on tensor cores reads added or selecting masks as vectors along the keys. Rows
// that are no whole vectors (of 197 keys) begin at unaligned elements, and in a table whose heads lie last,
// keys are no neighbours: attention reads a copy with padded rows.
#include <cstring>
#include <map>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "core/element.h"

namespace rondo::passes {

namespace {

constexpr size_t kMask = 3;         // of the inputs of attention
constexpr int64_t kMaskVector = 8;  // elements
int64_t PaddedKeys(int64_t keys) { return (keys + kMaskVector - 1) / kMaskVector * kMaskVector; }

// Whether the mask has elements of its own along the keys that are not neighbours, or rows that do not begin
// at vectors.
bool IsNoVectors(const ir::View& view) {
  if (!view.affine()) return false;
  const ir::ViewStep& step = view.steps[0];
  const int last = step.shape.rank - 1;
  bool odd = step.strides[last] != 1;
  for (int d = 0; d < last; ++d) odd |= step.shape[d] > 1 && step.strides[d] % kMaskVector != 0;
  return odd && step.strides[last] != 0;
}

class MaskPadder {
 public:
  explicit MaskPadder(ir::Graph* graph) : graph_(*graph) {}

  // Whether the attention reads a padded mask now.
  bool Pad(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op != Op::kAttention || !node.As<ir::AttentionAttrs>().has_mask) return false;
    const NodeId mask = node.inputs[kMask];
    if (!Is16BitFloat(graph_.node(node.inputs[0]).dtype) || !IsNoVectors(graph_.ViewOf(mask))) return false;
    const bool constant = graph_.IsConstant(graph_.BaseOf(mask));
    ir::Builder b = BuilderLike(&graph_, id);
    const NodeId once = Distinct(b, mask);
    const Shape shape = b.shape(mask);
    const int last = shape.rank - 1;
    if (!Pays(shape, b.shape(once), constant) || (!constant && shape[last] % kMaskVector == 0)) return false;
    const auto [at, fresh] = padded_.try_emplace(once, ir::kNoNode);
    if (fresh) at->second = constant ? Constant(b, once) : WithZeros(b, once);
    graph_.SetInput(id, kMask, b.Expand(b.Slice(at->second, last, 0, 1, shape[last]), shape));
    return true;
  }

 private:
  // Compares, in elements, what is read with what is copied and a kernel's start.
  static bool Pays(const Shape& read, const Shape& once, bool constant) {
    constexpr int64_t kKernel = 500'000, kConstant = 1 << 16;
    return read.elements() > (constant ? kConstant : kKernel + once.elements() / 4);
  }

  // The mask without what broadcasts repeat.
  static NodeId Distinct(ir::Builder& b, NodeId mask) {
    const ir::View view = b.graph().ViewOf(mask);
    for (int d = 0; d + 1 < view.shape().rank; ++d) {
      if (view.shape()[d] > 1 && view.steps[0].strides[d] == 0) mask = b.Slice(mask, d, 0, 1, 1);
    }
    return mask;
  }

  static NodeId WithZeros(ir::Builder& b, NodeId x) {
    Shape more = b.shape(x);
    const int last = more.rank - 1;
    more[last] = PaddedKeys(more[last]) - more[last];
    return b.Concat({x, b.Expand(b.Scalar(b.dtype(x), 0), more)}, last);
  }

  NodeId Constant(ir::Builder& b, NodeId x) {
    const NodeId base = graph_.BaseOf(x);
    const auto from = ir::WithBytes(graph_.node(base).As<ir::ConstantAttrs>().data);
    const ir::View view = graph_.ViewOf(x);
    const ir::ViewStep& step = view.steps[0];
    Shape shape = step.shape;
    const int last = shape.rank - 1;
    const int64_t keys = shape[last], rows = shape.elements() / keys, size = ByteSize(from->dtype);
    shape[last] = PaddedKeys(keys);
    std::vector<uint8_t> bytes(static_cast<size_t>(shape.elements() * size));
    for (int64_t row = 0; row < rows; ++row) {
      int64_t element = step.offset, rest = row;
      for (int d = last; d-- > 0; rest /= shape[d]) element += rest % shape[d] * step.strides[d];
      for (int64_t key = 0; key < keys; ++key, element += step.strides[last])
        std::memcpy(bytes.data() + (row * shape[last] + key) * size, from->bytes.data() + element * size,
                    static_cast<size_t>(size));
    }
    const NodeId made = b.Constant(ir::ConstantData::Own(from->dtype, shape, std::move(bytes)));
    graph_.node(made).name = graph_.node(base).name;
    return made;
  }

  ir::Graph& graph_;
  std::map<NodeId, NodeId> padded_;  // by mask
};

}  // namespace

Result<PassResult> PadMasks(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  if (options.target.tensor_cores) {
    MaskPadder padder(graph);
    for (NodeId id : graph->TopologicalOrder()) result.changes += padder.Pad(id);
  }
  Tidy(graph);
  result.text = Count(result.changes, "attention") + " with a mask of padded rows";
  return result;
}

}  // namespace rondo::passes
