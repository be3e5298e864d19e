// Computes producers without other readers inside their reader.
#include <algorithm>

#include "compiler/fusion/grouping.h"

namespace rondo::fusion {

// The cost of one evaluation, in additions.
int Grouping::CostOf(const Node& node) {
  if (node.op == Op::kIndexedRead) return 2;
  switch (node.As<ir::PointwiseAttrs>().op) {
    case TapeOp::kAdd:
    case TapeOp::kSub:
    case TapeOp::kMul:
    case TapeOp::kNeg:
    case TapeOp::kAbs:
    case TapeOp::kMin:
    case TapeOp::kMax:
    case TapeOp::kCast:
    case TapeOp::kSelect:
    case TapeOp::kLess:
    case TapeOp::kLessEqual:
    case TapeOp::kEqual:
    case TapeOp::kNot:
    case TapeOp::kBitAnd:
    case TapeOp::kBitOr:
    case TapeOp::kBitXor:
    case TapeOp::kBitNot:
    case TapeOp::kShl:
    case TapeOp::kShr: return 1;
    case TapeOp::kDiv:
    case TapeOp::kSqrt:
    case TapeOp::kReciprocal: return 4;
    default: return 16;
  }
}

// Whether reader `r` can compute `id` itself instead of loading it.
bool Grouping::CanComputeInside(NodeId r, NodeId id) const {
  const Node& reader = c_.node(r);
  if (reader.op == Op::kPointwise || reader.op == Op::kReduce) return true;
  if (reader.op != Op::kIndexedWrite) return false;
  for (size_t k = 0; k < reader.inputs.size(); ++k) {
    if (k != 1 && c_.base(reader.inputs[k]) == id) return false;
  }
  return true;
}

// Starts with the reader that failed last time, since it usually still does.
bool Grouping::AllReadersIn(NodeId id, int group) {
  const std::vector<NodeId>& readers = c_.readers[id];
  size_t& at = failed_[id];
  for (size_t seen = 0; seen < readers.size(); ++seen) {
    const NodeId r = readers[at];
    if (!c_.InGroup(r, group) || !CanComputeInside(r, id)) return false;
    at = at + 1 < readers.size() ? at + 1 : 0;
  }
  return true;
}

int64_t Grouping::DomainElements(const Group& group) const {
  const Node& sink = c_.node(group.sink);
  if (group.skeleton == Skeleton::kReduction) return group.domain.elements();
  return sink.op == Op::kIndexedWrite ? c_.node(sink.inputs[1]).shape.elements() : sink.shape.elements();
}

bool Grouping::WorthComputingInside(const Group& group, NodeId id) const {
  int64_t here = DomainElements(group), once = c_.node(id).shape.elements();
  const Node& node = c_.node(id);
  // On the host, looking up an element again for each of many places costs more than a kernel that does it
  // once.
  constexpr int64_t kManyPlaces = 16;
  const bool looks_up =
      node.op == Op::kIndexedRead && !c_.options.target.many_threads && here >= kManyPlaces * once;
  if (here <= once || here <= 64 || (CostOf(node) <= 2 && !looks_up)) return true;
  // On a GPU, it is cheaper that all threads compute a single number than that another kernel does.
  return once == 1 && c_.options.target.many_threads && group.skeleton == Skeleton::kMap &&
         node.op == Op::kPointwise && AccuracyOf(node.As<ir::PointwiseAttrs>().op) != Accuracy::kFunction;
}

void Grouping::AbsorbProducers(Group* group) {
  if (!c_.options.inlining) return;
  int id = group->id;
  for (bool grew = true; grew;) {
    grew = false;
    std::vector<NodeId> members = c_.groups[id].nodes;
    for (NodeId member : members) {
      if (IsAnchor(c_.node(member).op)) continue;
      for (NodeId input : c_.node(member).inputs) {
        grew |= TryAbsorb(&c_.groups[id], c_.base(input));
      }
    }
  }
}

bool Grouping::TryAbsorb(Group* group, NodeId producer) {
  const Op op = c_.node(producer).op;
  if (op != Op::kMatMul && op != Op::kConv && op != Op::kPointwise && op != Op::kIndexedRead) return false;
  if (!MayJoin(group->id, producer) || c_.stored[producer] || !AllReadersIn(producer, group->id))
    return false;
  if (c_.FusionOff(group->nodes[0]) || c_.FusionOff(producer) || IsRoundedForMemory(producer)) return false;
  if (ReadsWhatIsWritten(group->sink, producer) || !c_.SamePlace(group->nodes[0], producer)) return false;
  if (op == Op::kMatMul || op == Op::kConv) return TryTwin(group, producer);
  if (ReadsSumsOfAnother(*group, producer, 0)) return false;
  if (!c_.IsInlinable(producer) || !WorthComputingInside(*group, producer)) return false;
  if (cycles_.WouldCycleAsProducer(group->nodes, producer)) return false;
  if (!budget_.TakeProducer(*group, producer)) return false;
  Join(group, producer);
  return true;
}

// All readers widen it again, so it is stored as the narrow value.
bool Grouping::IsRoundedForMemory(NodeId id) const {
  const std::vector<NodeId>& readers = c_.readers[id];
  return std::any_of(readers.begin(), readers.end(),
                     [&](NodeId reader) { return WidensWhatWasRounded(c_.graph, reader); });
}

}  // namespace rondo::fusion
