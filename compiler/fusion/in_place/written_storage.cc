// Decides which writes happen in the memory that they change: those of states, and of memory without other
// readers. All others change a copy.
#include <algorithm>
#include <memory>

#include "compiler/fusion/in_place/preparation.h"
#include "compiler/ir/versions.h"

namespace rondo::fusion {

bool Preparation::IsState(NodeId id) const {
  if (g_.node(id).op != Op::kInput) return false;
  return state_of_input_[static_cast<size_t>(g_.node(id).As<ir::InputAttrs>().index)] >= 0;
}

void Preparation::IndexStates() {
  state_of_input_.assign(g_.inputs.size(), -1);
  state_of_output_.assign(g_.outputs.size(), -1);
  for (size_t s = 0; s < g_.states.size(); ++s) {
    state_of_input_[static_cast<size_t>(g_.states[s].input)] = static_cast<int>(s);
    state_of_output_[static_cast<size_t>(g_.states[s].output)] = static_cast<int>(s);
  }
}

// The versions of a state, the input first, if its output is the last of a chain of writes over it.
std::vector<NodeId> Preparation::VersionsOf(const ir::StatePair& pair) const {
  std::vector<NodeId> versions;
  NodeId at = g_.outputs[pair.output].node;
  while (true) {
    NodeId base = g_.BaseOf(at);
    if (!ir::IsDense(g_.ViewOf(at), g_.node(base).shape.elements())) return {};
    versions.push_back(base);
    const ir::VersionStep step = ir::VersionStepOf(g_, base);
    if (step.runs == kNoNode) break;
    at = g_.node(step.runs).inputs[step.slot];
  }
  std::reverse(versions.begin(), versions.end());
  return versions[0] == g_.inputs[pair.input].node ? versions : std::vector<NodeId>();
}

// Writes that end in their own state's output happen in place, unless a reader of an older version would be
// too late: then the state is written as a whole, after everything else. Calls that change parts of the state
// change them there, unless a reader would be too late for that.
void Preparation::FindStateChains() {
  for (size_t p = 0; p < g_.states.size(); ++p) {
    const ir::StatePair pair = g_.states[p];
    const std::vector<NodeId> chain = VersionsOf(pair);
    if (chain.size() < 2) continue;
    ir::Versions versions = WithChangedParts(chain);
    CopyOwnReads(versions);
    CopyLateReads(versions);
    std::string late = ir::OrderReaders(&g_, versions);
    if (!late.empty() && versions.size() > chain.size()) {
      versions = ir::Versions(g_, chain);
      late = ir::OrderReaders(&g_, versions);
    }
    if (!late.empty()) {
      if (!pair.donated) continue;
      g_.states.erase(g_.states.begin() + static_cast<int64_t>(p--));
      IndexStates();
      continue;
    }
    for (size_t v = 1; v < versions.size(); ++v) {
      const bool joins = versions[v].runs == kNoNode;
      c_.places[versions[v].node].Put(joins ? Place::How::kJoin : Place::How::kState, versions[0].node);
    }
    chains_.push_back(std::move(versions));
  }
}

// The versions of a chain of writes. Where a write puts what calls made of a part of an older version, in its
// place and contiguous, the calls change the part there, and nothing is written.
ir::Versions Preparation::WithChangedParts(const std::vector<NodeId>& chain) const {
  ir::Versions versions(g_, chain[0]);
  for (size_t i = 1; i < chain.size(); ++i) {
    const std::vector<NodeId> calls = CallsInPlace(chain[i], versions);
    for (size_t c = calls.size(); c-- > 0;) versions.AddWrite(g_, calls[c]);
    if (calls.empty()) {
      versions.AddWrite(g_, chain[i]);
    } else {
      versions.AddJoin(g_, chain[i]);
    }
  }
  return versions;
}

// The results of the calls that change the place of `write` into what it puts there, the last first; empty if
// something else is put there.
std::vector<NodeId> Preparation::CallsInPlace(NodeId write, const ir::Versions& versions) const {
  const Node& node = g_.node(write);
  if (node.op != Op::kIndexedWrite || (g_.annotated && !MayRunNothing(write))) return {};
  const ir::IndexedAttrs& attrs = node.As<ir::IndexedAttrs>();
  const std::optional<uint64_t> place = RunOffset(attrs.map, node.dtype);
  if (!place || !attrs.dims.empty() || attrs.combine != ir::ScatterCombine::kNone) return {};
  std::vector<NodeId> calls;
  for (NodeId at = node.inputs[1];;) {
    const NodeId base = g_.BaseOf(at);
    const std::optional<size_t> known = versions.NumberOf(base);
    if (known) {
      const View shown = ir::Compose(versions[*known].place, g_.ViewOf(at));
      return RunOffset(shown, node.dtype) == place ? calls : std::vector<NodeId>();
    }
    const ir::VersionStep step = ir::VersionStepOf(g_, base);
    const bool whole = ir::IsDense(g_.ViewOf(at), g_.node(base).shape.elements());
    if (!whole || step.runs == kNoNode || g_.node(step.runs).op != Op::kCall) return {};
    // A call that changes two arguments which overlap has two tensors.
    for (size_t v = 1; v < versions.size(); ++v) {
      if (versions[v].runs == step.runs && versions[v].written.Meets(ir::Region(attrs.map))) return {};
    }
    calls.push_back(base);
    at = g_.node(step.runs).inputs[step.slot];
  }
}

// Whether annotations of `write` hold though nothing runs for it: it has none, or is in the region of the
// call before it.
bool Preparation::MayRunNothing(NodeId write) const {
  const Node& node = g_.node(write);
  if (ir::MayShareKernel(node, Node())) return true;
  return node.annotations.count("fuse") == 0 && ir::BoundAlike(node, g_.node(g_.BaseOf(node.inputs[1])));
}

// Data that a write takes from its own storage, as updates, indices or other arguments, is read before
// anything is written. A call may read other parts of the storage than it changes.
void Preparation::CopyOwnReads(const ir::Versions& versions) {
  for (size_t v = 1; v < versions.size(); ++v) {
    const NodeId runs = versions[v].runs;
    if (runs == kNoNode) continue;
    for (size_t k = 0; k < g_.node(runs).inputs.size(); ++k) {
      const NodeId read = g_.node(runs).inputs[k];
      const std::optional<size_t> own = versions.NumberOf(g_.BaseOf(read));
      if (!own || versions.IsTarget(g_, runs, k)) continue;
      if (g_.node(runs).op == Op::kCall && !versions.ReadBy(g_, runs, k, *own).Meets(versions[v].written))
        continue;
      NodeId copy = MakeCopy(read, "it is read from the memory that is written, at other places");
      g_.SetInput(runs, k, copy);
    }
  }
}

// Who reads what a call has replaced, and cannot run before the call, reads a copy of it, unless that is much
// more than the call changes.
void Preparation::CopyLateReads(const ir::Versions& versions) {
  std::unordered_map<NodeId, NodeId> copies;  // by what is read
  for (size_t number = 0; number < versions.size(); ++number) {
    for (NodeId reader : ReadersOf(versions[number].node)) {
      for (size_t k = 0; k < g_.node(reader).inputs.size(); ++k) {
        const NodeId read = g_.node(reader).inputs[k];
        if (g_.BaseOf(read) != versions[number].node || versions.IsTarget(g_, reader, k) ||
            !IsReadLate(versions, number, reader, k))
          continue;
        const auto [copy, fresh] = copies.emplace(read, kNoNode);
        if (fresh)
          copy->second =
              MakeCopy(read, NameOf(g_, reader) + " reads it as it was when the new value is already there");
        g_.SetInput(reader, k, copy->second);
      }
    }
  }
}

bool Preparation::IsReadLate(const ir::Versions& versions, size_t number, NodeId reader, size_t slot) const {
  const int64_t elements = g_.node(g_.node(reader).inputs[slot]).shape.elements();
  const std::optional<size_t> own = versions.NumberOf(reader);
  if (own && versions[*own].runs == kNoNode) return false;  // a join reads nothing
  for (size_t v = 1; v < versions.size(); ++v) {
    const NodeId call = versions[v].runs;
    if (call == kNoNode || call == reader || g_.node(call).op != Op::kCall || versions.Has(number, v) ||
        elements > 2 * g_.node(versions[v].node).shape.elements())
      continue;
    if (versions.ReadBy(g_, reader, slot, number).Meets(versions[v].written) && g_.Reaches(call, reader))
      return true;
  }
  return false;
}

// Copies made after the chains were found also read versions.
Status Preparation::OrderCopies() {
  for (const ir::Versions& versions : chains_) {
    const std::string late = ir::OrderReaders(&g_, versions);
    if (!late.empty()) return Status::Error(Code::kInternal, "fusion: %s", late.c_str());
  }
  return Status::Ok();
}

// Whether `version` shows all of its memory, in order.
bool Preparation::IsWhole(NodeId version) const {
  for (ir::VersionStep step = ir::VersionStepOf(g_, version); step.runs != kNoNode;
       step = ir::VersionStepOf(g_, version)) {
    const NodeId data = g_.node(step.runs).inputs[step.slot];
    version = g_.BaseOf(data);
    if (!ir::IsDense(g_.ViewOf(data), g_.node(version).shape.elements())) return false;
  }
  return true;
}

// Why a write to `data` changes a copy.
std::string Preparation::WhyNotChanged(NodeId data) const {
  const NodeId base = g_.BaseOf(data);
  if (g_.node(base).op == Op::kInput && !IsState(base) && !IsGivenAway(base))
    return NameOf(g_, base) + " is written to, and stays as the caller gave it";
  if (c_.IsLeaf(base)) return NameOf(g_, base) + " is written to, and others need it as it was";
  return "what " + NameOf(g_, base) + " computes is written to, and others read it as it was";
}

}  // namespace rondo::fusion
