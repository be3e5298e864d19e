// States that are computed as a whole: in place, if all readers of the old contents can run before.
#include <algorithm>

#include "compiler/fusion/in_place/preparation.h"
#include "compiler/ir/versions.h"

namespace rondo::fusion {

// Computes states in place instead of copying them at the end, if nothing reads the old contents later.
void Preparation::WriteStatesDirectly() {
  MarkOutputs();
  for (const ir::StatePair& pair : g_.states) {
    const NodeId copy = g_.outputs[pair.output].node;
    if (!Made(copy) || c_.alone[copy] == 0) continue;
    const NodeId id = g_.node(copy).inputs[0], base = g_.BaseOf(id);
    std::string because = WhyNotDirectly(pair, id);
    const std::vector<NodeId> writers = WritersOf(base);
    if (because.empty()) TakeMovesAside(g_.inputs[pair.input].node, writers);
    if (because.empty()) because = OrderOldReaders(pair, copy, writers);
    if (!because.empty()) {
      c_.places[copy].because = because;
      continue;
    }
    g_.SetOutput(static_cast<size_t>(pair.output), id);
    is_output_[base] = 1;
  }
}

// Why the kernel that computes `id` cannot write it into the state, apart from the state's readers; "" if it
// may.
std::string Preparation::WhyNotDirectly(const ir::StatePair& pair, NodeId id) {
  const NodeId base = g_.BaseOf(id), first = FirstVersion(g_, base);
  const std::string state = "state \"" + g_.inputs[pair.input].name + "\"", what = NameOf(g_, base);
  const Op op = g_.node(first).op;
  if (c_.through_copy[base]) return ReadsOtherPlaces(pair);
  if (c_.IsLeaf(first) || op == Op::kIota) return state + " becomes " + what;
  if (c_.places[base].InState() || IsOutput(base) || c_.PartOf(first) != kNoNode)
    return state + " becomes " + what + ", which lies in memory of its own";
  if (!ir::IsDense(g_.ViewOf(id), g_.node(base).shape.elements()) || !IsWhole(base))
    return state + " becomes a part of " + what + ", or that in another order";
  if (op == Op::kLoopResult) return "the rounds of " + what + " hand on what becomes " + state;
  const auto convolves = [&](NodeId reader) {
    return g_.node(reader).op == Op::kConv || g_.node(reader).op == Op::kPool;
  };
  const std::vector<NodeId> readers = ReadersOf(base);
  if (std::any_of(readers.begin(), readers.end(), convolves))
    return "convolutions read " + what + " in an order of their own";
  return "";
}

std::string Preparation::ReadsOtherPlaces(const ir::StatePair& pair) const {
  const std::string memory = NameOf(g_, g_.inputs[pair.input].node);
  if (pair.donated) return "the kernel that computes it reads " + memory + " at other places than it writes";
  return "the kernel that computes " + memory + " reads it at other places than it writes";
}

// The nodes that compute `base` in one memory: all pieces of a concatenation, all versions.
std::vector<NodeId> Preparation::WritersOf(NodeId base) const {
  std::vector<NodeId> writers, work = {base};
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    const ir::VersionStep step = ir::VersionStepOf(g_, id);
    const Node& node = g_.node(id);
    if (step.runs != kNoNode) {
      writers.push_back(step.runs);
      work.push_back(g_.BaseOf(g_.node(step.runs).inputs[step.slot]));
    } else if (node.op == Op::kConcat) {
      for (NodeId piece : node.inputs) {
        if (g_.node(piece).shape.elements() > 0) work.push_back(g_.BaseOf(piece));
      }
    } else {
      writers.push_back(node.op == Op::kCallResult ? node.inputs[0] : id);
    }
  }
  return writers;
}

// The nodes that read `id`, through views or not, in id order.
std::vector<NodeId> Preparation::ReadersOf(NodeId id) {
  std::vector<NodeId> readers;
  for (NodeId user : g_.UsersOf(id)) {
    if (g_.node(user).op != Op::kView) {
      readers.push_back(user);
      continue;
    }
    const std::vector<NodeId> behind = g_.UsersOf(user);
    readers.insert(readers.end(), behind.begin(), behind.end());
  }
  std::sort(readers.begin(), readers.end());
  readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  return readers;
}

// Whether copy `writer`, a piece of a state's new value, reads each element from a place that is higher by a
// constant distance than the one it writes.
bool Preparation::MovesDown(NodeId writer) const {
  View place = ir::DenseView(g_.node(writer).shape);
  for (NodeId id = writer; c_.PartOf(id) != kNoNode; id = c_.PartOf(id))
    place = ir::Compose(c_.places[id].at, place);
  const View from = g_.ViewOf(g_.node(writer).inputs[0]);
  if (!from.affine() || !place.affine()) return false;
  const ir::ViewStep &read = from.steps[0], &write = place.steps[0];
  const Shape& shape = g_.node(writer).shape;
  int64_t reach = 1;  // extent of the inner dimensions, whose elements are contiguous and in order
  for (int d = shape.rank - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    if (read.strides[d] != write.strides[d] || write.strides[d] < reach) return false;
    reach = write.strides[d] * shape[d];
  }
  return read.offset > write.offset;
}

// Chooses a copy that moves elements of `storage` within it in one pass, with its loops in order on one
// thread. Returns it, or kNoNode; on GPUs two copies are faster.
NodeId Preparation::MoveUpwards(NodeId storage, const std::vector<NodeId>& writers) {
  for (NodeId writer : writers) {
    const bool moves = Made(writer) && g_.BaseOf(g_.node(writer).inputs[0]) == storage;
    if (!moves || c_.options.target.many_threads || ReadsInPlace(writer, storage) || !MovesDown(writer))
      continue;
    c_.places[writer].upwards = true;
    c_.alone[writer] = 1;
    return writer;
  }
  return kNoNode;
}

// Makes copies that move elements of `storage` within it read from another copy, except for one.
void Preparation::TakeMovesAside(NodeId storage, const std::vector<NodeId>& writers) {
  const NodeId upwards = MoveUpwards(storage, writers);
  for (NodeId writer : writers) {
    const bool moves = Made(writer) && g_.BaseOf(g_.node(writer).inputs[0]) == storage;
    if (!moves || ReadsInPlace(writer, storage)) continue;
    const std::string because = "elements of " + NameOf(g_, storage) + " move within it";
    c_.places[writer].because = because;
    if (writer == upwards) continue;
    const NodeId aside = MakeCopy(g_.node(writer).inputs[0], because, writer);
    c_.alone[aside] = 1;
    g_.SetInput(writer, 0, aside);
  }
}

// Orders all readers of a state's old contents, except `copy`, before `writers`, or makes them read each
// element where it is written. Returns "", or the reader that cannot.
std::string Preparation::OrderOldReaders(const ir::StatePair& pair, NodeId copy,
                                         const std::vector<NodeId>& writers) {
  const std::string state = NameOf(g_, g_.inputs[pair.input].node);
  const NodeId input = g_.inputs[pair.input].node;
  std::vector<NodeId> readers = ReadersOf(input);
  std::erase(readers, copy);
  for (NodeId reader : readers) {
    for (NodeId writer : writers) {
      const bool first = ReadsInPlace(reader, input) || c_.places[reader].upwards;
      if (reader == writer && !first) return ReadsOtherPlaces(pair);
      if (reader != writer && g_.Reaches(writer, reader))
        return NameOf(g_, reader) + " reads " + state + " as it was when the new value is already there";
    }
  }
  for (NodeId reader : readers) {
    for (NodeId writer : writers) {
      if (reader != writer && !g_.Reaches(reader, writer)) g_.RunAfter(writer, reader);
    }
  }
  return "";
}

// Whether node `id` may read each element of `storage` at the point at which it computes its result there.
bool Preparation::ReadsInPlace(NodeId id, NodeId storage) const {
  const Node& node = g_.node(id);
  return node.op == Op::kPointwise && std::all_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
           return g_.BaseOf(input) != storage ||
                  ir::IsDense(g_.ViewOf(input), g_.node(storage).shape.elements());
         });
}

}  // namespace rondo::fusion
