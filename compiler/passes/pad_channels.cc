// PadChannels: a convolution whose channels do not form vectors (the three of an image, 17, 255) would be
// read element by element on a GPU. It reads a copy instead, padded to four channels or to a multiple of
// eight. One with fewer than eight outputs, which tensor cores do not support, computes eight, and the
// additional ones are dropped.
//
// The copy has channels last (fusion/channels_last.cc), so that a pixel of four channels is one access of 8
// bytes (4 for 8-bit integers), and larger ones are accesses of eight channels. The padding, and its weights,
// are zero.
#include <algorithm>
#include <cstring>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "core/element.h"

namespace rondo::passes {

namespace {

using ir::ConstantData;

// Channels in one access, and in the copy.
int64_t Vector(int64_t channels) { return channels <= 4 ? 4 : 8; }
int64_t Padded(int64_t channels) {
  const int64_t vector = Vector(channels);
  return (channels + vector - 1) / vector * vector;
}

// Compares the accesses of the convolution, those of the copy, and a kernel's start, in single-element loads:
// 59 million take 240 us on an H200 (tools/bench/results/gpu-networks.md). The copy must win clearly.
bool Pays(const Node& conv, const Shape& x, const Shape& w) {
  const double points = static_cast<double>(conv.shape.elements() / conv.shape[1]);
  const double fetched = points * static_cast<double>(w.elements() / w[0]);
  const double pixels = static_cast<double>(x.elements() / x[1]);
  const double padded = static_cast<double>(Padded(x[1]));
  const double taps = static_cast<double>(w.elements() / (w[0] * w[1]));
  const double saved = fetched - points * taps * padded / static_cast<double>(Vector(x[1]));
  constexpr double kKernel = 0.5e6, kMargin = 1.5;
  return saved > kMargin * pixels * padded + kKernel;
}

bool Suits(const ir::Graph& graph, const Node& node) {
  if (node.op != Op::kConv || node.As<ir::ConvAttrs>().groups != 1) return false;
  const Node &x = graph.node(node.inputs[0]), &w = graph.node(node.inputs[1]);
  const auto is_8bit = [](DType t) { return t == DType::kI8 || t == DType::kU8; };
  const bool half = Is16BitFloat(x.dtype) && w.dtype == x.dtype;
  const bool fp8 = IsFp8(x.dtype) && IsFp8(w.dtype);
  // The sum beside an integer convolution counts channels outside the input (PadSums).
  const bool counts = x.shape[1] > Vector(1) && node.As<ir::ConvAttrs>().absent != 0;
  const bool typed = half || fp8 || (is_8bit(x.dtype) && is_8bit(w.dtype) && !counts);
  return typed && w.op == Op::kConstant && Padded(x.shape[1]) != x.shape[1] && node.shape.elements() > 0 &&
         w.shape[0] >= 8 && Pays(node, x.shape, w.shape);
}

constexpr int64_t kFewestOutputs = 8;  // the fewest that tensor cores multiply

// Whether there are too few outputs, and enough loads that another kernel pays.
bool HasFewOutputs(const ir::Graph& graph, const Node& node) {
  if (node.op != Op::kConv || node.As<ir::ConvAttrs>().groups != 1 || node.shape.elements() == 0)
    return false;
  const Node &x = graph.node(node.inputs[0]), &w = graph.node(node.inputs[1]);
  const bool half = Is16BitFloat(x.dtype) && w.dtype == x.dtype;
  constexpr int64_t kFetched = 4 << 20;
  return half && w.op == Op::kConstant && w.shape[0] < kFewestOutputs && w.shape[1] % kFewestOutputs == 0 &&
         node.shape.elements() / w.shape[0] * (w.shape.elements() / w.shape[0]) > kFetched;
}

// [o, c, kernel...] with zeros appended to outputs and channels.
std::shared_ptr<const ConstantData> PaddedWeight(const std::shared_ptr<const ConstantData>& weight,
                                                 int64_t made, int64_t channels) {
  const std::shared_ptr<const ConstantData> from = ir::WithBytes(weight);
  Shape shape = from->shape;
  shape[0] = made;
  shape[1] = channels;
  const size_t outputs = static_cast<size_t>(from->shape[0]), whole = from->bytes.size() / outputs;
  const size_t padded = whole / static_cast<size_t>(from->shape[1]) * static_cast<size_t>(shape[1]);
  std::vector<uint8_t> bytes(static_cast<size_t>(made) * padded);
  for (size_t o = 0; o < outputs; ++o) std::memcpy(&bytes[o * padded], &from->bytes[o * whole], whole);
  return ConstantData::Own(from->dtype, shape, std::move(bytes));
}

// Window sums beside a matmul (integer_matmuls) read the copy, too: its zeros add nothing.
void PadSums(ir::Graph* graph, NodeId x, NodeId pixels, const Shape& weight) {
  const std::vector<NodeId> readers = graph->UsersOf(x);
  for (NodeId reader : readers) {
    const Node& node = graph->node(reader);
    if (node.op != Op::kConv || node.inputs[0] != x || !ir::AddsUpLeftSide(*graph, node)) continue;
    const NodeId number = graph->BaseOf(node.inputs[1]);
    const ir::ConvAttrs attrs = node.As<ir::ConvAttrs>();
    Shape of_pixels = graph->node(node.inputs[1]).shape;
    of_pixels[1] = weight[1];
    if (!(of_pixels == weight) || graph->node(number).shape.elements() != 1 || attrs.absent != 0) continue;
    ir::Builder b = BuilderLike(graph, reader);
    graph->Replace(reader, b.Conv(pixels, b.Expand(b.Reshape(number, Shape{}), weight), attrs));
  }
}

NodeId WeightOf(ir::Builder& b, NodeId w, int64_t made, int64_t channels) {
  const NodeId padded =
      b.Constant(PaddedWeight(b.graph().node(w).As<ir::ConstantAttrs>().data, made, channels));
  b.graph().node(padded).name = b.graph().node(w).name;
  return padded;
}

void PadOutputs(ir::Graph* graph, NodeId id) {
  ir::Builder b = BuilderLike(graph, id);
  const NodeId x = graph->node(id).inputs[0], w = graph->node(id).inputs[1];
  const ir::ConvAttrs attrs = graph->node(id).As<ir::ConvAttrs>();
  const DType dtype = b.dtype(id);
  const int64_t outputs = b.shape(w)[0];
  const NodeId conv = b.Conv(x, WeightOf(b, w, kFewestOutputs, b.shape(w)[1]), attrs);
  graph->node(conv).dtype = dtype;
  graph->Replace(id, b.Slice(conv, 1, 0, 1, outputs));
}

void Pad(ir::Graph* graph, NodeId id) {
  const NodeId x = graph->node(id).inputs[0], w = graph->node(id).inputs[1];
  const ir::ConvAttrs attrs = graph->node(id).As<ir::ConvAttrs>();
  const DType dtype = graph->node(id).dtype;
  ir::Builder b = BuilderLike(graph, id);
  Shape more = b.shape(x);
  more[1] = Padded(more[1]) - more[1];
  const NodeId pixels = b.Concat({x, b.Expand(b.Scalar(b.dtype(x), 0), more)}, 1);
  const NodeId weight = WeightOf(b, w, b.shape(w)[0], b.shape(pixels)[1]);
  const NodeId conv = b.Conv(pixels, weight, attrs);
  graph->node(conv).dtype = dtype;
  graph->Replace(id, conv);
  PadSums(graph, x, pixels, b.shape(weight));
}

}  // namespace

Result<PassResult> PadChannels(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  for (NodeId id : graph->TopologicalOrder()) {
    if (!options.target.tensor_cores) continue;
    const bool few = HasFewOutputs(*graph, graph->node(id));
    if (!few && !Suits(*graph, graph->node(id))) continue;
    few ? PadOutputs(graph, id) : Pad(graph, id);
    ++result.changes;
  }
  Tidy(graph);
  result.text =
      Count(result.changes, "convolution") + " of channels that are no vectors read or compute more";
  return result;
}

}  // namespace rondo::passes
