#include "compiler/node_fates.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "compiler/ir/loop.h"
#include "formats/plan/node_fate.h"

namespace rondo {
namespace {

using plan::NodeFate;

// Adds the fates of live nodes. If nodes of one source differ, running takes precedence.
void Add(const ir::Graph& graph, std::unordered_map<std::string_view, NodeFate>* fates) {
  for (ir::NodeId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.node(id);
    if (node.dead || node.op == ir::Op::kInput) continue;
    const NodeFate fate = node.op == ir::Op::kConstant ? NodeFate::kConstant
                          : node.op == ir::Op::kView   ? NodeFate::kView
                          : node.op == ir::Op::kConcat ? NodeFate::kJoined
                                                       : NodeFate::kRuns;
    for (const std::string& source : node.sources) {
      NodeFate& known = fates->try_emplace(source, fate).first->second;
      known = std::min(known, fate);
    }
    if (node.op == ir::Op::kLoop) Add(node.As<ir::LoopAttrs>().info->body, fates);
  }
}

}  // namespace

void FollowNodes(ProgramInWork* program) {
  std::unordered_map<std::string_view, NodeFate> fates;
  Add(program->graph, &fates);
  for (const NamedValue& value : program->values) {
    NodeFate& fate = program->fates.try_emplace(value.node, NodeFate::kKnown).first->second;
    const auto now = fates.find(value.node);
    if (now != fates.end())
      fate = now->second;
    else if (fate == NodeFate::kRuns)
      fate = NodeFate::kGone;
  }
}

std::vector<std::string> FatesOf(const Compilation& compilation) {
  std::unordered_set<std::string_view> told;
  for (const ProgramInWork& program : compilation.programs) {
    for (const LoweredOp& op : program.planned.lowered.ops) told.insert(op.sources.begin(), op.sources.end());
  }
  std::vector<std::string> texts;
  for (const ProgramInWork& program : compilation.programs) {
    for (const auto& [node, fate] : program.fates) {
      // A node that runs but is in no step is computed where it is read.
      if (told.insert(node).second)
        texts.push_back(plan::TextOf(fate == NodeFate::kRuns ? NodeFate::kGone : fate, node));
    }
  }
  return texts;
}

}  // namespace rondo
