// Epilogues: pointwise work and writes after an anchor, computed at its accumulator's points.
#include <algorithm>

#include "compiler/fusion/grouping.h"

namespace rondo::fusion {

namespace {

// Shows each element of its storage exactly once.
bool IsPermutation(const View& view) {
  if (!view.affine() || view.steps[0].offset != 0) return false;
  std::vector<ir::IndexDim> dims = ir::JoinedDims(view.steps[0]);
  std::sort(dims.begin(), dims.end(),
            [](const ir::IndexDim& a, const ir::IndexDim& b) { return a.stride < b.stride; });
  int64_t run = 1;
  for (const ir::IndexDim& dim : dims) {
    if (dim.stride != run) return false;
    run *= dim.extent;
  }
  return true;
}

}  // namespace

// The smallest set of pointwise nodes after `at` whose only output is its last node, so that an epilogue can
// absorb it without storing more. Empty if there is none.
std::vector<NodeId> Grouping::NextExit(const Group& group, NodeId at) {
  if (c_.stored[at] || c_.node(at).op == Op::kIndexedWrite) return {};
  constexpr size_t kMaxRegion = 48;
  std::vector<NodeId> region;
  auto inside = [&](NodeId id) {
    return id == at || std::find(region.begin(), region.end(), id) != region.end();
  };
  // The first node in topological order, outside of the region, that reads one of its first `count` nodes
  // or `at`.
  auto first_reader = [&](size_t count) {
    NodeId first = kNoNode;
    for (size_t i = 0; i <= count; ++i) {
      for (NodeId r : c_.readers[i == 0 ? at : region[i - 1]]) {
        if (!inside(r) && (first == kNoNode || c_.position[r] < c_.position[first])) first = r;
      }
    }
    return first;
  };
  while (region.size() < kMaxRegion) {
    // All readers of everything but the last node are inside: the last node is the only exit.
    if (!region.empty() && first_reader(region.size() - 1) == kNoNode) return region;
    NodeId next = first_reader(region.size());
    if (next == kNoNode || !Joins(group, at, region, next)) return {};
    region.push_back(next);
  }
  return {};
}

// Whether `id` can be computed at the accumulator's points, given that `region` is.
bool Grouping::Joins(const Group& group, NodeId at, const std::vector<NodeId>& region, NodeId id) {
  const Node& node = c_.node(id);
  bool write = node.op == Op::kIndexedWrite;
  if (!MayJoin(group.id, id, region) || c_.FusionOff(id) || (node.op != Op::kPointwise && !write))
    return false;
  if (!c_.SamePlace(group.nodes[0], id) || budget_.Exceeds(group, region, id)) return false;
  for (NodeId member : region) {
    if (c_.stored[member] || c_.node(member).op == Op::kIndexedWrite) return false;
  }
  int64_t elements = c_.node(group.anchors[0]).shape.elements();
  bool plain = group.skeleton == Skeleton::kConvolution;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    NodeId base = c_.base(node.inputs[k]);
    bool ours = base == at || std::find(region.begin(), region.end(), base) != region.end();
    if (!ours) continue;
    if (write && k != 1) return false;
    const View view = c_.graph.ViewOf(node.inputs[k]);
    if (view.shape().elements() != elements) return false;
    if (plain ? !ir::IsDense(view, elements) : !IsPermutation(view)) return false;
  }
  if (write && (plain || node.As<ir::IndexedAttrs>().combine != ir::ScatterCombine::kNone ||
                node.As<ir::IndexedAttrs>().may_collide)) {
    return false;
  }
  std::vector<NodeId> members = group.nodes;
  members.insert(members.end(), region.begin(), region.end());
  bool clash = std::any_of(members.begin(), members.end(),
                           [&](NodeId member) { return ReadsWhatIsWritten(id, member); });
  return !clash && !cycles_.WouldCycleAsReader(members, id);
}

// A path beside the result that starts at its reader `first`: pointwise nodes with constants, one after
// another, that end in FP8 numbers or, possibly with elements of other tensors, in a combination into one
// number. Empty if there is no such path, or it cannot be computed at the result's points.
std::vector<NodeId> Grouping::PathBeside(const Group& group, NodeId first, PathEnd end) {
  constexpr size_t kMostSteps = 6;
  std::vector<NodeId> path;
  for (NodeId at = group.sink, next = first; path.size() < kMostSteps;
       at = next, next = c_.readers[next][0]) {
    const Node& node = c_.node(next);
    if (end == PathEnd::kOneNumber && Combines(group, path, at, next) &&
        ir::IsDense(c_.graph.ViewOf(node.inputs[1]), c_.node(at).shape.elements())) {
      path.push_back(next);
      return path;
    }
    if (node.op != Op::kPointwise || !(node.shape == c_.node(group.sink).shape) ||
        !Joins(group, group.sink, path, next))
      return {};
    for (NodeId input : node.inputs) {
      const NodeId base = c_.base(input);
      const bool from = base == at || (end == PathEnd::kOneNumber && !c_.InGroup(base, group.id));
      const bool read = from && ir::IsDense(c_.graph.ViewOf(input), node.shape.elements());
      const bool number = c_.graph.IsConstant(base) && c_.node(base).shape.elements() == 1;
      if (!read && !number) return {};
    }
    path.push_back(next);
    if (end == PathEnd::kFp8 && IsFp8(node.dtype)) return path;
    if (c_.stored[next] || c_.readers[next].size() != 1) return {};
  }
  return {};
}

// Whether `id` combines elements of `at`, which the group's kernel computes once it includes `path`, or
// reads, into one number, and the kernel supports that.
bool Grouping::Combines(const Group& group, const std::vector<NodeId>& path, NodeId at, NodeId id) {
  const Node& node = c_.node(id);
  if (!ir::CombinesIntoOne(node) || !MayJoin(group.id, id, path) || c_.FusionOff(id) ||
      !c_.SamePlace(group.nodes[0], id))
    return false;
  std::vector<NodeId> members = group.nodes;
  members.insert(members.end(), path.begin(), path.end());
  return c_.base(node.inputs[1]) == at && c_.base(node.inputs[0]) != at &&
         !cycles_.WouldCycleAsReader(members, id);
}

// Adds readers that combine all of the group's result, or of values derived from it, so that its kernel does
// this while each element is at hand.
void Grouping::CombineBeside(Group* group) {
  if (!c_.options.target.atomics) return;
  const Node& sink = c_.node(group->sink);
  if (sink.op != Op::kIndexedWrite) return TakeBeside(group, PathEnd::kOneNumber);
  // The other extreme of a tensor that this map reads only for one.
  if (!ir::CombinesIntoOne(sink)) return;
  const NodeId all = sink.inputs[1];
  for (NodeId reader : c_.readers[c_.base(all)]) {
    const bool same = ir::CombinesIntoOne(c_.node(reader)) &&
                      c_.graph.ViewOf(c_.node(reader).inputs[1]) == c_.graph.ViewOf(all);
    if (!same || !Combines(*group, {}, c_.base(all), reader) || !budget_.Take(*group, reader)) continue;
    Join(group, reader);
    group->beside.push_back(reader);
  }
}

// Adds readers that quantise a result which is also stored for other readers: the kernel stores both.
void Grouping::StoreBeside(Group* group) {
  const bool product = group->skeleton == Skeleton::kMatMul || group->skeleton == Skeleton::kConvolution;
  if (!product || !c_.options.target.stores_beside || c_.node(group->sink).op == Op::kIndexedWrite) return;
  TakeBeside(group, PathEnd::kFp8);
}

void Grouping::TakeBeside(Group* group, PathEnd end) {
  const std::vector<NodeId> readers = c_.readers[group->sink];
  for (NodeId reader : readers) {
    const std::vector<NodeId> path = PathBeside(*group, reader, end);
    if (path.empty() || !budget_.TakeRegion(*group, group->sink, path)) continue;
    for (NodeId member : path) Join(group, member);
    group->beside.push_back(path.back());
  }
}

}  // namespace rondo::fusion
