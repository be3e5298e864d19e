#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "core/synthetic.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;
using ir::Node;
using ir::NodeId;
using ir::Op;

// The weight of a convolution that gains by another order: a 16-bit constant [o, c, kernel...] of several
// points.
const ConstantData* WeightOf(const ir::Graph& graph, const Node& node) {
  if (node.op != Op::kConv) return nullptr;
  const Node& weight = graph.node(node.inputs[1]);
  if (weight.op != Op::kConstant || (weight.dtype != DType::kF16 && weight.dtype != DType::kBF16))
    return nullptr;
  const ConstantData* data = weight.As<ir::ConstantAttrs>().data.get();
  int64_t channels = data->shape[1], points = data->shape.elements() / (data->shape[0] * channels);
  constexpr int64_t kMostBytes = 64 << 20;
  return points > 1 && channels % 8 == 0 && data->byte_size() <= kMostBytes ? data : nullptr;
}

// The same numbers as [o, kernel..., c].
std::shared_ptr<const ConstantData> ChannelsLast(const ConstantData& data) {
  const int64_t size = ByteSize(data.dtype), out = data.shape[0], channels = data.shape[1];
  const int64_t points = data.shape.elements() / (out * channels);
  std::vector<uint8_t> from(static_cast<size_t>(data.byte_size())), to(from.size());
  if (data.synthetic) {
    FillSyntheticRange(data.dtype, data.synthetic_key, data.synthetic_scale, 0,
                       static_cast<uint64_t>(data.shape.elements()), from.data());
  } else {
    from.assign(data.bytes.begin(), data.bytes.end());
  }
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < points; ++p) {
        const uint8_t* element = from.data() + ((o * channels + c) * points + p) * size;
        std::copy(element, element + size, to.data() + ((o * points + p) * channels + c) * size);
      }
    }
  }
  Shape shape;
  shape.dims[shape.rank++] = out;
  for (int d = 2; d < data.shape.rank; ++d) shape.dims[shape.rank++] = data.shape[d];
  shape.dims[shape.rank++] = channels;
  return ConstantData::Own(data.dtype, shape, std::move(to));
}

}  // namespace

Result<PassResult> OrderConvolutionWeights(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  for (NodeId id : graph->TopologicalOrder()) {
    const ConstantData* data = WeightOf(*graph, graph->node(id));
    if (data == nullptr) continue;
    NodeId weight = graph->node(id).inputs[1];
    ir::Builder b = BuilderLike(graph, weight);
    std::vector<int> order = {0, data->shape.rank - 1};
    for (int d = 1; d + 1 < data->shape.rank; ++d) order.push_back(d);
    NodeId ordered = b.Transpose(b.Constant(ChannelsLast(*data)), order);
    graph->node(graph->BaseOf(ordered)).name = graph->node(weight).name;
    graph->Replace(weight, ordered);
    ++result.changes;
  }
  Tidy(graph);
  result.text = Count(result.changes, "weight") + " with the channels last";
  return result;
}

}  // namespace rondo::passes
