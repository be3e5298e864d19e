// Inputs of convolutions on GPUs: tensor cores read the channels of a pixel as vectors, so other layouts are
// copied to channels last.
#include <unordered_map>

#include "compiler/fusion/in_place/preparation.h"

namespace rondo::fusion {

namespace {

// Compares the single-element loads that the copy saves, for each tile of output channels, with the elements
// that it moves. A kernel's start counts as half a million elements: 59 million take 240 us on an H200
// (tools/bench/results/gpu-networks.md).
bool CopyPays(const ir::Graph& graph, const Node& conv) {
  const Shape &x = graph.node(conv.inputs[0]).shape, &w = graph.node(conv.inputs[1]).shape;
  const double points = static_cast<double>(conv.shape.elements() / conv.shape[1]);
  const int64_t groups = conv.As<ir::ConvAttrs>().groups;
  const double fetched = points * static_cast<double>(w.elements() / w[0] * groups);
  constexpr int64_t kTile = 128;
  constexpr double kKernel = 0.5e6;
  return fetched * static_cast<double>((w[0] / groups + kTile - 1) / kTile) >
         2 * static_cast<double>(x.elements()) + kKernel;
}

// A convolution whose windows are vectors along the channels.
bool ReadsChannelVectors(const ir::Graph& graph, const Node& node) {
  if (node.dead || node.op != Op::kConv) return false;
  const Node &x = graph.node(node.inputs[0]), &w = graph.node(node.inputs[1]);
  return IsNarrow(x.dtype) && w.shape[0] >= 8 && (w.shape[1] % 8 == 0 || x.shape[1] == 4);
}

}  // namespace

// Inputs and outputs of the model have a fixed order. Other inputs that a convolution reads by plain strides
// get their order when they are computed (channels_last.cc). An image enlarged by repeating pixels does not
// have plain strides.
void Preparation::CopyPictures() {
  if (!c_.options.target.tensor_cores) return;
  MarkOutputs();
  std::unordered_map<NodeId, NodeId> copies;
  const NodeId count = g_.size();
  for (NodeId id = 0; id < count; ++id) {
    const Node& node = g_.node(id);
    if (!ReadsChannelVectors(g_, node) || !CopyPays(g_, node)) continue;
    const NodeId input = node.inputs[0], base = g_.BaseOf(input);
    const ir::View view = g_.ViewOf(input);
    const bool own_order = g_.node(base).op == Op::kInput || IsOutput(base);
    if (view.affine() && (!own_order || view.steps[0].strides[1] == 1)) continue;
    const auto [copy, made] = copies.try_emplace(input, ir::kNoNode);
    if (made)
      copy->second =
          MakeCopy(input, "a convolution reads " + NameOf(g_, input) + " with its channels last", id);
    g_.SetInput(id, 0, copy->second);
  }
}

}  // namespace rondo::fusion
