// Cheap pointwise producers of a matmul's lhs, without other readers, become its prologue.
#include <algorithm>

#include "compiler/fusion/grouping.h"

namespace rondo::fusion {

namespace {

constexpr int kCheap = 4;  // work of a point that a prologue may do

}  // namespace

// Whether only `producer` reads something expensive that a map computes: the map may as well compute
// `producer`, and store that instead. (x * sigmoid(x): a matmul would read x and the sigmoid.)
bool Grouping::HasExpensiveInput(NodeId producer) const {
  const std::vector<NodeId>& inputs = c_.node(producer).inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](NodeId input) {
    const NodeId base = c_.base(input);
    return c_.IsInlinable(base) && c_.readers[base].size() == 1 && !c_.stored[base] &&
           CostOf(c_.node(base)) > kCheap && c_.SamePlace(base, producer) &&
           c_.node(base).shape.elements() >= c_.node(producer).shape.elements();
  });
}

void Grouping::AbsorbPrologue(int id) {
  const Node& anchor = c_.node(c_.groups[id].anchors[0]);
  const DType left = c_.node(anchor.inputs[0]).dtype;
  if (ByteSize(left) == 1) return;  // tiles of bytes are read directly
  if (anchor.op != Op::kMatMul || !c_.options.inlining || c_.FusionOff(anchor.id)) return;
  std::vector<NodeId> work = {c_.base(anchor.inputs[0])};
  bool outermost = true;
  while (!work.empty()) {
    NodeId producer = work.back();
    work.pop_back();
    bool fits =
        MayJoin(id, producer) && c_.SamePlace(anchor.id, producer) && !c_.stored[producer] &&
        c_.node(producer).op == Op::kPointwise && c_.IsInlinable(producer) &&
        CostOf(c_.node(producer)) <= kCheap &&
        (!outermost || c_.node(producer).shape.elements() == c_.node(anchor.inputs[0]).shape.elements());
    for (NodeId reader : c_.readers[producer]) {
      bool lhs_only = c_.node(reader).op != Op::kMatMul || c_.base(c_.node(reader).inputs[1]) != producer;
      fits = fits && c_.InGroup(reader, id) && lhs_only && c_.node(reader).op != Op::kIndexedWrite;
    }
    // A member of the epilogue reads at other points than the prologue does.
    if (fits && !outermost) {
      for (NodeId reader : c_.readers[producer]) fits = fits && InPrologue(id, reader);
    }
    fits = fits && !HasExpensiveInput(producer) && !ReadsWhatIsWritten(c_.groups[id].sink, producer);
    if (!fits || cycles_.WouldCycleAsProducer(c_.groups[id].nodes, producer) ||
        !budget_.TakeProducer(c_.groups[id], producer)) {
      continue;
    }
    Join(&c_.groups[id], producer);
    c_.groups[id].prologue.push_back(producer);
    for (NodeId input : c_.node(producer).inputs) work.push_back(c_.base(input));
    outermost = false;
  }
}

bool Grouping::InPrologue(int group, NodeId id) const {
  const std::vector<NodeId>& nodes = c_.groups[group].prologue;
  return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
}

}  // namespace rondo::fusion
