#include "compiler/fusion/constraints.h"

#include <set>

namespace rondo::fusion {

// Equal reads share one copy, if annotations bind them alike.
NodeId Constraints::CopyOf(NodeId input) {
  const View view = c_.graph.ViewOf(input);
  const NodeId base = c_.graph.BaseOf(input);
  const auto [first, last] = copy_of_.equal_range(base);
  for (auto it = first; it != last; ++it) {
    const bool alike = ir::BoundAlike(c_.node(it->second.second), c_.node(input));
    if (it->second.first == view && alike) return it->second.second;
  }
  ++copies_;
  const NodeId copy = InsertCopy(&c_.graph, input);
  copy_of_.emplace(base, std::pair{view, copy});
  return copy;
}

// Makes the read of input `slot` of `reader` plain: copies the view's storage in an order that a prefix of
// the view can walk. A reader that is such a copy itself finds its tensor inside another's memory, where the
// same view is not plain: it reads a copy of the whole tensor. False if it is that copy.
bool Constraints::CopyInput(NodeId reader, int slot) {
  ir::Graph& graph = c_.graph;
  const NodeId input = graph.node(reader).inputs[static_cast<size_t>(slot)];
  const View view = graph.ViewOf(input);
  const NodeId base = graph.BaseOf(input);
  const auto add_view = [&](NodeId of, const View& shown) {
    ir::Node node;
    node.op = Op::kView;
    node.dtype = graph.node(of).dtype;
    node.shape = shown.shape();
    node.attrs = ir::ViewAttrs{shown};
    node.inputs = {of};
    node.sources = graph.node(input).sources;
    node.annotations = graph.node(input).annotations;
    return graph.Add(std::move(node));
  };
  // A convolution's input is copied in the order in which it is read, so that channels may be last.
  if (view.affine() || (graph.node(reader).op == Op::kConv && c_.options.target.convolutions_reorder)) {
    NodeId copy = CopyOf(input);
    if (copy == reader) {
      const NodeId whole = CopyOf(base);
      if (whole == reader) return false;
      copy = add_view(whole, view);
    }
    graph.SetInput(reader, static_cast<size_t>(slot), copy);
    return true;
  }
  // All steps but the last describe the tensor that the last step reads: copies that one densely.
  View prefix = view;
  const ir::ViewStep last = prefix.steps.back();
  prefix.steps.pop_back();
  const NodeId copy = CopyOf(add_view(base, prefix));
  const NodeId shown = add_view(copy, View{{last}});
  graph.SetInput(reader, static_cast<size_t>(slot), shown);
  return true;
}

// False if nothing is left to try.
bool Constraints::Avoid(const Obstacle& obstacle) {
  constexpr int kMostCopies = 8;  // in a row, for one read
  const NodeId reader = obstacle.reader;
  if (!obstacle.copies_at_once && !c_.FusionOff(reader)) {
    c_.alone[static_cast<size_t>(reader)] = 1;
    return true;
  }
  if (obstacle.slot < 0 || ++copied_[{reader, obstacle.slot}] > kMostCopies) return false;
  if (!CopyInput(reader, obstacle.slot)) return false;
  if (obstacle.copies_at_once) {  // computed inside its reader it would not be a copy
    c_.alone.resize(static_cast<size_t>(c_.graph.size()), 0);
    c_.alone[static_cast<size_t>(c_.base(c_.node(reader).inputs[static_cast<size_t>(obstacle.slot)]))] = 1;
  }
  // A convolution gains much from its epilogue. The obstacle is gone, or will show again.
  if (c_.node(reader).op == Op::kConv) c_.alone[static_cast<size_t>(reader)] = 0;
  return true;
}

Status Constraints::Add(const std::vector<Obstacle>& obstacles) {
  // Node by node takes as many rounds as the worst part has nodes; after a few rounds, all of it is taken
  // apart.
  constexpr int kPatience = 6;
  const bool patient = rounds_++ < kPatience;
  std::set<NodeId> written;  // several kernels may write parts of one state
  for (const Obstacle& obstacle : obstacles) {
    if (obstacle.written != ir::kNoNode) {
      if (!written.insert(obstacle.written).second) continue;
      char& through_copy = c_.through_copy[static_cast<size_t>(obstacle.written)];
      if (through_copy != 0) {
        return Status::Error(Code::kInternal,
                             "%s reads a state at other places than it writes, through a copy",
                             SourcesOf(c_.node(obstacle.written)).c_str());
      }
      through_copy = 1;
      ++copies_;
      continue;
    }
    const std::vector<NodeId>& members = c_.groups[static_cast<size_t>(obstacle.group)].nodes;
    if (!patient && members.size() > 1) {
      for (NodeId id : members) c_.alone[static_cast<size_t>(id)] = 1;
      continue;
    }
    if (Avoid(obstacle)) continue;
    const std::string what = SourcesOf(c_.node(obstacle.reader));
    return Status::Error(Code::kUnsupported,
                         "no loops read the operands of %s in place, and copying them did not help",
                         what.c_str())
        .FromNode(what);
  }
  return Status::Ok();
}

}  // namespace rondo::fusion
