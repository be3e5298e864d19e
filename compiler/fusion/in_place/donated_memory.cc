// Inputs whose memory the caller gives away: which output is computed there, or what is written there.
#include <algorithm>

#include "compiler/fusion/in_place/preparation.h"
#include "compiler/ir/versions.h"

namespace rondo::fusion {

// An output that is its donated input with some elements replaced, or unchanged, uses the input's memory,
// like a state. Everything is examined anew, since an earlier round's findings may change the result.
void Preparation::PairDonations() {
  std::erase_if(g_.states, [](const ir::StatePair& pair) { return pair.donated; });
  bool computes = false;  // a program without steps has no useful buffers
  for (NodeId id = 0; id < g_.size(); ++id)
    computes |= !g_.node(id).dead && g_.node(id).op != Op::kView && !c_.IsLeaf(id);
  for (const ir::Donation& donation : g_.donations) {
    const NodeId input = g_.inputs[static_cast<size_t>(donation.input)].node;
    c_.places[input].donated = true;
    if (donation.output < 0) continue;
    const ir::StatePair pair{donation.input, donation.output, true};
    const NodeId shown = g_.outputs[static_cast<size_t>(donation.output)].node;
    const bool same =
        g_.BaseOf(shown) == input && ir::IsDense(g_.ViewOf(shown), g_.node(input).shape.elements());
    if ((same && computes) || VersionsOf(pair).size() > 1) g_.states.push_back(pair);
  }
}

// Whether `id` is an input whose memory may be written and is not used by an output.
bool Preparation::IsGivenAway(NodeId id) const { return c_.places[id].donated && !IsState(id); }

// Computes outputs of the shape and type of a donated input in its memory, if all readers of the input can
// run before. Comes after all other placement, so it causes no copies.
void Preparation::TakeDonations() {
  MarkOutputs();
  c_.donated.clear();
  for (const ir::Donation& donation : g_.donations) {
    const ir::GraphInput& input = g_.inputs[static_cast<size_t>(donation.input)];
    if (!IsGivenAway(input.node) || c_.places[input.node].how == Place::How::kVersion) continue;
    std::string& because = c_.places[input.node].because;
    because = "no output is of its shape and type";
    for (size_t o = 0; o < g_.outputs.size(); ++o) {
      const Node& of = g_.node(g_.outputs[o].node);
      Place& place = c_.places[FirstVersion(g_, g_.BaseOf(g_.outputs[o].node))];
      const bool fits = of.dtype == g_.node(input.node).dtype && of.shape == g_.node(input.node).shape;
      if (!fits || state_of_output_[o] >= 0 || place.how == Place::How::kDonated) continue;
      because = WhyNotTaken(donation.input, g_.outputs[o].node);
      if (!because.empty()) continue;
      place.Put(Place::How::kDonated, input.node);
      c_.donated.push_back(g_.BaseOf(g_.outputs[o].node));
      break;
    }
  }
}

// Why output `id` cannot be computed in the memory of input `input`; "" if it can, and the order is then set.
std::string Preparation::WhyNotTaken(int input, NodeId id) {
  const NodeId base = g_.BaseOf(id), first = FirstVersion(g_, base);
  const std::string what = "what " + NameOf(g_, base) + " computes ";
  const Op op = g_.node(first).op;
  if (c_.through_copy[base])
    return "the kernel that computes " + NameOf(g_, base) + " reads it at other places";
  if (c_.places[base].InState() || c_.IsLeaf(first) || op == Op::kIota || c_.PartOf(first) != kNoNode)
    return what + "lies in memory of its own";
  if (!ir::IsDense(g_.ViewOf(id), g_.node(base).shape.elements()) || !IsWhole(base))
    return what + "is an output in part, or in another order";
  if (op == Op::kLoopResult) return "the rounds of " + NameOf(g_, base) + " hand it on";
  return OrderOldReaders({input, 0, true}, kNoNode, WritersOf(base));
}

}  // namespace rondo::fusion
