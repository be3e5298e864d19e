// Inputs and outputs of custom op calls and collectives: their elements must be contiguous, in any memory.
#include <algorithm>
#include <memory>
#include <utility>

#include "compiler/fusion/in_place/preparation.h"

namespace rondo::fusion {

std::optional<uint64_t> RunOffset(const View& view, DType dtype) {
  if (view.shape().elements() == 0) return 0;
  if (!view.affine()) return std::nullopt;
  View from_front = view;
  const int64_t first = std::exchange(from_front.steps[0].offset, 0) * ByteSize(dtype);
  if (first % kRunAlignment != 0 || !ir::IsDense(from_front, view.shape().elements())) return std::nullopt;
  return static_cast<uint64_t>(first);
}

// Copies inputs of calls that are not contiguous.
void Preparation::CopyCallInputs() {
  const NodeId count = g_.size();
  for (NodeId id = 0; id < count; ++id) {
    if (g_.node(id).dead || g_.node(id).op != Op::kCall) continue;
    for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
      const NodeId input = g_.node(id).inputs[k];
      const View view = g_.ViewOf(input);
      const bool whole = ir::IsDense(view, g_.node(g_.BaseOf(input)).shape.elements());
      if (whole || RunOffset(view, g_.node(input).dtype)) continue;
      const NodeId copy = MakeCopy(input, "a custom op reads elements one after another", id);
      g_.SetInput(id, k, copy);
    }
  }
}

// The rank of this device in a collective; no value if it does not take part.
std::optional<int64_t> Preparation::RankIn(const ir::CollectiveAttrs& attrs) const {
  if (attrs.group.empty()) return c_.options.device;
  const auto found =
      std::find(attrs.group.begin(), attrs.group.end(), static_cast<uint32_t>(c_.options.device));
  if (found == attrs.group.end()) return std::nullopt;
  return found - attrs.group.begin();
}

// Computes this device's share of a gathered tensor in its place there, if nothing else needs the share.
void Preparation::GatherInPlace() {
  const NodeId count = g_.size();
  for (NodeId id = 0; id < count; ++id) {
    const Node& node = g_.node(id);
    if (node.dead || node.op != Op::kCollective ||
        node.As<ir::CollectiveAttrs>().op != CollectiveOp::kAllGather || c_.PartOf(id) != kNoNode)
      continue;
    const std::optional<int64_t> rank = RankIn(node.As<ir::CollectiveAttrs>());
    if (!rank) continue;
    const NodeId share = node.inputs[0], holder = FirstVersion(g_, g_.BaseOf(share));
    View place = ir::Reshape(ir::Slice(ir::DenseView(node.shape), 0, *rank, 1, 1), g_.node(share).shape);
    const NodeId base = g_.BaseOf(share);
    const bool alone =
        ReadersOf(base) == std::vector<NodeId>{id} && ReadsPiecesAlone(base) && late_[holder].empty();
    if (!alone || !RunOffset(place, node.dtype) ||
        !WhyNotInPlace(share, holder, ir::DenseView(node.shape), &place).empty() ||
        !ir::IsDense(g_.ViewOf(share), g_.node(base).shape.elements()))
      continue;
    c_.places[holder].Put(Place::How::kPart, id, place);
  }
}

}  // namespace rondo::fusion
