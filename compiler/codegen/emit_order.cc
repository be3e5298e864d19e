// Emits the order of a program's steps. Streams come from the ops; dependences that streams do not imply
// become events.
#include <algorithm>

#include "compiler/codegen/plan_emitter.h"

namespace rondo {
namespace {

// Whether a value that both ops touch already orders them.
bool ImpliedByData(const LoweredOp& before, const LoweredOp& op) {
  return std::any_of(op.params.begin(), op.params.end(), [&](const LoweredBinding& a) {
    return std::any_of(before.params.begin(), before.params.end(), [&](const LoweredBinding& b) {
      return a.value == b.value && (a.mode != Mode::kRead || b.mode != Mode::kRead);
    });
  });
}

}  // namespace

// Steps in loops neither wait for nor record events: `after` names the steps that must come before them.
PlanEmitter::StepEdges PlanEmitter::EdgesOf(const LoweredProgram& program, uint32_t first_step,
                                            uint32_t* num_events) {
  const StreamOrder order(program);
  StepEdges edges;
  edges.waits.resize(program.ops.size());
  edges.after.resize(program.ops.size());
  edges.records.assign(program.ops.size(), kNone);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    for (int d : order.Waits(static_cast<int>(i))) {
      const LoweredOp& before = program.ops[static_cast<size_t>(d)];
      uint32_t& event = edges.records[static_cast<size_t>(d)];
      if (op.loop >= 0 || before.loop >= 0) {
        edges.after[i].push_back(static_cast<uint32_t>(d) + first_step);
        continue;
      }
      if (event == kNone) event = (*num_events)++;
      edges.waits[i].push_back(event);
    }
    for (int d : op.deps) {
      const LoweredOp& before = program.ops[static_cast<size_t>(d)];
      if (before.stream == op.stream && !ImpliedByData(before, op))
        edges.after[i].push_back(static_cast<uint32_t>(d) + first_step);
    }
    std::vector<uint32_t>& after = edges.after[i];
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    std::sort(edges.waits[i].begin(), edges.waits[i].end());
  }
  return edges;
}

}  // namespace rondo
