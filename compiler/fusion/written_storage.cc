// Decides which writes happen in the memory that they change: those of states, and of memory without other
// readers. All others change a copy.
#include <algorithm>
#include <memory>
#include <unordered_set>

#include "compiler/fusion/preparation.h"
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
// too late: then the state is written as a whole, after everything else.
void Preparation::FindStateChains() {
  in_place_.assign(static_cast<size_t>(g_.size()), 0);
  for (size_t p = 0; p < g_.states.size(); ++p) {
    const ir::StatePair pair = g_.states[p];
    std::vector<NodeId> versions = VersionsOf(pair);
    if (versions.size() < 2) continue;
    CopyOwnReads(versions);
    if (const std::string late = ir::OrderReaders(&g_, versions); !late.empty()) {
      if (!pair.donated) continue;
      g_.states.erase(g_.states.begin() + static_cast<int64_t>(p--));
      IndexStates();
      continue;
    }
    for (size_t v = 1; v < versions.size(); ++v) in_place_[versions[v]] = 1;
    for (NodeId version : versions) storage_.emplace(version, versions[0]);
    chains_.push_back(std::move(versions));
  }
}

// Data that a write takes from its own storage, as updates, indices or other arguments, is read before
// anything is written.
void Preparation::CopyOwnReads(const std::vector<NodeId>& versions) {
  const std::unordered_set<NodeId> known(versions.begin(), versions.end());
  for (size_t v = 1; v < versions.size(); ++v) {
    const ir::VersionStep step = ir::VersionStepOf(g_, versions[v]);
    for (size_t k = 0; k < g_.node(step.runs).inputs.size(); ++k) {
      NodeId read = g_.node(step.runs).inputs[k];
      const bool own = known.count(g_.BaseOf(read)) != 0;
      if (!own || k == step.slot) continue;
      NodeId copy = MakeCopy(read, "it is read from the memory that is written, at other places");
      g_.SetInput(step.runs, k, copy);
    }
  }
}

// Copies made after the chains were found also read versions.
Status Preparation::OrderCopies() {
  c_.storage_of.assign(static_cast<size_t>(g_.size()), kNoNode);
  for (const std::vector<NodeId>& versions : chains_) {
    const std::string late = ir::OrderReaders(&g_, versions);
    if (!late.empty()) return Status::Error(Code::kInternal, "fusion: %s", late.c_str());
    for (NodeId version : versions) c_.storage_of[version] = versions[0];
  }
  for (const auto& [version, placed] : placed_) c_.storage_of[version] = placed.first;
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
