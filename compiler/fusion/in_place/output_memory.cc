// The memory of outputs: every output is a node of its own in that memory. States are first copied there
// (whole_states.cc).
#include "compiler/fusion/in_place/preparation.h"

namespace rondo::fusion {

// Makes every output a node of its own in the output's memory.
void Preparation::SettleOutputs() {
  std::vector<char> taken(static_cast<size_t>(g_.size()), 0);
  for (size_t o = 0; o < g_.outputs.size(); ++o) {
    NodeId id = g_.outputs[o].node;
    NodeId base = g_.BaseOf(id);
    const bool state = state_of_output_[o] >= 0;
    const bool copied = Made(id) && c_.alone[id] != 0;  // as below, in an earlier preparation
    if (state && (copied || EndsChain(o, base) || IsUnchangedState(o, id))) continue;
    const std::string because = WhyCopied(o, id, taken[base] != 0);
    if (state || !because.empty()) {
      // A state that takes over another state's contents, or its own in another order, takes them from a
      // copy.
      bool from_state = state && (IsState(base) || c_.places[base].InState());
      NodeId copy = MakeCopy(from_state ? MakeCopy(id, because) : id, because);
      if (state) c_.alone[static_cast<size_t>(copy)] = 1;
      g_.SetOutput(o, copy);
      taken.resize(static_cast<size_t>(g_.size()), 0);
      base = copy;
    }
    taken[base] = 1;
  }
}

// Why output `output` cannot be computed in its memory; "" if it can.
std::string Preparation::WhyCopied(size_t output, NodeId id, bool taken) const {
  const NodeId base = g_.BaseOf(id);
  const std::string what = "output \"" + g_.outputs[output].name + "\" is ";
  const bool whole = ir::IsDense(g_.ViewOf(id), g_.node(base).shape.elements()) && IsWhole(base);
  if (c_.IsLeaf(base))
    return what + (whole ? "" : "part of ") + NameOf(g_, base) + ", and each has memory of its own";
  if (c_.places[base].InState()) return what + "a state as well, and each has memory of its own";
  if (taken) return what + "another output as well, and each has memory of its own";
  if (!whole) return what + "what " + NameOf(g_, base) + " computes in part or in another order";
  return "";
}

// Whether output `output` is a state that the chain of in-place writes ending in `base` has written.
bool Preparation::EndsChain(size_t output, NodeId base) const {
  const ir::StatePair& pair = g_.states[static_cast<size_t>(state_of_output_[output])];
  return c_.places[base].InState() && c_.places[base].in == g_.inputs[pair.input].node;
}

bool Preparation::IsUnchangedState(size_t output, NodeId id) const {
  const ir::StatePair& pair = g_.states[static_cast<size_t>(state_of_output_[output])];
  return g_.BaseOf(id) == g_.inputs[pair.input].node &&
         ir::IsDense(g_.ViewOf(id), g_.node(g_.BaseOf(id)).shape.elements());
}

}  // namespace rondo::fusion
