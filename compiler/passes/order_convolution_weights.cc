#include <algorithm>

#include "compiler/ir/evaluate.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "core/element.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;

bool Is8Bit(DType t) { return t == DType::kI8 || t == DType::kU8; }

// With one channel a group: a vector, or a thread of a GPU, handles neighbouring groups.
bool IsDepthwise(const ConstantData& data) { return data.shape[1] == 1; }

// A constant, or a view of one (for example of a transposed convolution) that GPUs could not read as vectors.
std::shared_ptr<const ConstantData> KnownWeight(ir::Graph* graph, NodeId id, bool reorders,
                                                int64_t most_bytes) {
  const Node &weight = graph->node(id), &base = graph->node(graph->BaseOf(id));
  if (base.op != Op::kConstant || weight.shape.elements() * ByteSize(weight.dtype) > most_bytes)
    return nullptr;
  const std::shared_ptr<const ConstantData> data = base.As<ir::ConstantAttrs>().data;
  if (weight.op == Op::kConstant) return data;
  const ir::View& view = graph->ViewOf(id);
  const int innermost = weight.shape[1] == 1 ? 0 : 1;
  if (!reorders && view.affine() && view.steps[0].strides[innermost] == 1) return nullptr;
  const Result<std::shared_ptr<const ConstantData>> shown = EvaluateNode(weight, {ir::WithBytes(data)});
  return shown.ok() ? *shown : nullptr;
}

// The weight of a convolution that profits from another order: a constant [o, c, kernel...]. On a host, any
// float weight with several output channels; otherwise a 16-bit one with several points.
std::shared_ptr<const ConstantData> WeightOf(ir::Graph* graph, const Node& node, bool reorders) {
  constexpr int64_t kMostBytes = 64 << 20;
  if (node.op != Op::kConv || ir::AddsUpLeftSide(*graph, node)) return nullptr;
  const Node& weight = graph->node(node.inputs[1]);
  const std::shared_ptr<const ConstantData> data = KnownWeight(graph, weight.id, reorders, kMostBytes);
  if (data == nullptr) return nullptr;
  const bool half = Is16BitFloat(weight.dtype);
  const int64_t outputs = data->shape[0], channels = data->shape[1], elements = data->shape.elements();
  if (elements == 0 || data->byte_size() > kMostBytes) return nullptr;
  if (Is8Bit(weight.dtype) || (IsFp8(weight.dtype) && !reorders) || weight.dtype == DType::kI16) {
    const int64_t groups = node.As<ir::ConvAttrs>().groups;
    const bool slides = groups > 1 && IsDepthwise(*data) && (reorders ? outputs == groups : outputs % 8 == 0);
    return elements > outputs * channels && (channels > 1 || slides) ? data : nullptr;
  }
  if (reorders) return outputs > 1 && (half || weight.dtype == DType::kF32) ? data : nullptr;
  const bool vectors = IsDepthwise(*data) ? outputs % 8 == 0 : channels % 8 == 0 || channels == 4;
  return half && elements > outputs * channels && vectors ? data : nullptr;
}

// The memory order of the dims of [o, c, kernel...]: [kernel..., c, o] or [o, kernel..., c].
std::vector<int> OrderOf(int rank, bool outputs_last) {
  std::vector<int> order;
  if (!outputs_last) order.push_back(0);
  for (int d = 2; d < rank; ++d) order.push_back(d);
  order.push_back(1);
  if (outputs_last) order.push_back(0);
  return order;
}

// The same numbers with the dims in `order`, outermost first.
std::shared_ptr<const ConstantData> Ordered(const std::shared_ptr<const ConstantData>& weight,
                                            const std::vector<int>& order) {
  const std::shared_ptr<const ConstantData> with_bytes = ir::WithBytes(weight);
  const ConstantData& data = *with_bytes;
  const std::span<const uint8_t> from = data.bytes;
  const int64_t size = ByteSize(data.dtype);
  std::vector<uint8_t> to(from.size());
  int64_t strides[kMaxRank], index[kMaxRank] = {};
  for (int64_t d = data.shape.rank - 1, run = 1; d >= 0; --d) {
    strides[d] = run;
    run *= data.shape[static_cast<int>(d)];
  }
  Shape shape;
  for (int d : order) shape.dims[shape.rank++] = data.shape[d];
  int64_t at = 0;
  for (int64_t i = 0; i < data.shape.elements(); ++i) {
    std::copy_n(from.data() + at * size, size, to.data() + i * size);
    for (int d = shape.rank - 1; d >= 0; --d) {
      const int64_t stride = strides[order[static_cast<size_t>(d)]];
      at += stride;
      if (++index[d] < shape[d]) break;
      at -= stride * shape[d];
      index[d] = 0;
    }
  }
  return ConstantData::Own(data.dtype, shape, std::move(to));
}

}  // namespace

Result<PassResult> OrderConvolutionWeights(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  for (NodeId id : graph->TopologicalOrder()) {
    const std::shared_ptr<const ConstantData> data =
        WeightOf(graph, graph->node(id), options.target.convolutions_reorder);
    if (data == nullptr) continue;
    NodeId weight = graph->node(id).inputs[1];
    ir::Builder b = BuilderLike(graph, weight);
    const std::vector<int> order =
        OrderOf(data->shape.rank,
                (options.target.convolutions_reorder && IsFloat(data->dtype)) || IsDepthwise(*data));
    std::vector<int> back(order.size());
    for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int>(d);
    NodeId ordered = b.Transpose(b.Constant(Ordered(data, order)), back);
    graph->node(graph->BaseOf(ordered)).name = graph->node(graph->BaseOf(weight)).name;
    graph->Replace(weight, ordered);
    ++result.changes;
  }
  Tidy(graph);
  result.text = Count(result.changes, "weight") + " with the channels last";
  return result;
}

}  // namespace rondo::passes
