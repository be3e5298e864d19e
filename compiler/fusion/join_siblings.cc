// Matmuls with one lhs whose results are used at the same points become accumulators of one part; so do a
// convolution of 8-bit integers and the sums of its windows.
#include <algorithm>
#include <map>
#include <utility>

#include "compiler/fusion/grouping.h"

namespace rondo::fusion {

// Whether both have packed weights in the same format, or neither has.
bool Grouping::ArePackedAlike(const Node& a, const Node& b) const {
  const auto *x = std::get_if<ir::PackedAttrs>(&a.attrs), *y = std::get_if<ir::PackedAttrs>(&b.attrs);
  if (x == nullptr || y == nullptr) return x == y;
  const PackedWeights &v = x->weights, &w = y->weights;
  return v.type == w.type && v.dtype == w.dtype && v.block == w.block && v.zero == w.zero &&
         x->has_zeros == y->has_zeros && c_.node(a.inputs[2]).dtype == c_.node(b.inputs[2]).dtype;
}

// Whether both convolutions have the same windows, and one of them only sums them.
bool Grouping::HasSameWindows(const Node& a, const Node& b) const {
  if (a.op != Op::kConv || b.op != Op::kConv) return a.op == b.op;
  const ir::ConvAttrs &x = a.As<ir::ConvAttrs>(), &y = b.As<ir::ConvAttrs>();
  return (AddsUpLeftSide(c_.graph, a) || AddsUpLeftSide(c_.graph, b)) && x.strides == y.strides &&
         x.dilations == y.dilations && x.pads_begin == y.pads_begin && x.pads_end == y.pads_end &&
         x.groups == y.groups && x.absent == y.absent &&
         c_.node(a.inputs[1]).shape == c_.node(b.inputs[1]).shape;
}

// Whether `id` corrects the sums of a matmul that is not in a group yet by its row sums: both become
// accumulators of that matmul's part, if they meet in its epilogue.
bool Grouping::ReadsSumsOfAnother(const Group& group, NodeId id, int step) const {
  constexpr int kMostSteps = 4;
  const Node& node = c_.node(id);
  if (node.dtype != DType::kI32 || step == kMostSteps) return false;
  if (AddsUpLeftSide(c_.graph, node) && Free(id)) {
    if (group.anchors.empty()) return true;
    const Node& first = c_.node(group.anchors[0]);
    return !HasSameWindows(first, node) || !SameRead(first.inputs[0], node.inputs[0]);
  }
  if (node.op != Op::kPointwise) return false;
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](NodeId input) { return ReadsSumsOfAnother(group, c_.base(input), step + 1); });
}

// Adds a second matmul of the same lhs whose result is read at the same points, as one more accumulator.
bool Grouping::TryTwin(Group* group, NodeId id) {
  const Node& first = c_.node(group->anchors.empty() ? id : group->anchors[0]);
  const Node& twin = c_.node(id);
  if (group->anchors.empty() || group->anchors.size() >= kMaxSlots || !HasSameWindows(first, twin))
    return false;
  if (group->skeleton != Skeleton::kMatMul && group->skeleton != Skeleton::kConvolution) return false;
  if (twin.inputs[0] != first.inputs[0] && !SameRead(twin.inputs[0], first.inputs[0])) return false;
  if (!(twin.shape == first.shape) || twin.dtype != first.dtype) return false;
  if (!ir::MayShareKernel(twin, first)) return false;
  if (c_.node(twin.inputs[1]).dtype != c_.node(first.inputs[1]).dtype || !ArePackedAlike(twin, first))
    return false;
  std::optional<View> a = PathTo(group->sink, group->anchors[0], *group);
  Join(group, id);
  std::optional<View> b = PathTo(group->sink, id, *group);
  if (!a || !b || !(*a == *b) || cycles_.WouldCycleAsProducer(group->nodes, id) ||
      !budget_.Take(*group, id)) {
    group->nodes.pop_back();
    c_.group_of[id] = -1;
    return false;
  }
  group->anchors.push_back(id);
  return true;
}

bool Grouping::SameRead(NodeId a, NodeId b) const {
  return c_.base(a) == c_.base(b) && c_.graph.ViewOf(a) == c_.graph.ViewOf(b);
}

// The only view by which `from`'s domain reads `to` inside the group; no value if there are several.
std::optional<View> Grouping::PathTo(NodeId from, NodeId to, const Group& group) const {
  const Node& sink = c_.node(from);
  const Shape& domain = sink.op == Op::kIndexedWrite ? c_.node(sink.inputs[1]).shape : sink.shape;
  std::map<NodeId, std::vector<View>> seen;
  std::vector<std::pair<NodeId, View>> work = {{from, ir::DenseView(domain)}};
  std::optional<View> found;
  while (!work.empty()) {
    const auto [at, view] = std::move(work.back());
    work.pop_back();
    if (at == to) {
      if (found && !(*found == view)) return std::nullopt;
      found = view;
      continue;
    }
    const Node& node = c_.node(at);
    if (!c_.InGroup(at, group.id) || IsAnchor(node.op) || node.op == Op::kIndexedRead) continue;
    std::vector<View>& views = seen[at];
    if (std::find(views.begin(), views.end(), view) != views.end()) continue;
    if (views.size() >= kMostViews) return std::nullopt;
    views.push_back(view);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.op == Op::kIndexedWrite && k != 1) continue;
      NodeId input = node.inputs[k];
      work.emplace_back(c_.base(input), ir::Compose(c_.graph.ViewOf(input), view));
    }
  }
  return found;
}

}  // namespace rondo::fusion
