// What the assertions of kernels are of, as texts among the plan's sources (formats/plan/assertion_note.h).
#include <algorithm>

#include "compiler/codegen/plan_emitter.h"
#include "formats/plan/assertion_note.h"

namespace rondo {
namespace {

// The model's assertions that the kernel makes, each once.
std::vector<int64_t> AssertionsIn(const Kernel& kernel) {
  std::vector<int64_t> found;
  for (const Part& part : kernel.parts) {
    ForEachTape(part, [&](const Tape& tape) {
      for (const TapeInst& inst : tape) {
        const bool first = std::find(found.begin(), found.end(), inst.imm.i) == found.end();
        if (inst.op == TapeOp::kAssertFinite && first) found.push_back(inst.imm.i);
      }
    });
  }
  return found;
}

}  // namespace

AssertionNote PlanEmitter::AssertionNoteOf(size_t p, int64_t assertion, uint32_t number,
                                           uint32_t step) const {
  const NamedValue& of = programs_[p].asserted[static_cast<size_t>(assertion)];
  return {number, step, programs_[p].lowered.name, of.value, of.node};
}

// Where assertions of each of the program's kernels are numbered from: 0, unless a step of that number of
// another program has an assertion of that number that is of something else. A driver knows the step and the
// number alone.
uint32_t PlanEmitter::FirstAssertion(const Group& group) const {
  const auto is_free = [&](uint32_t first) {
    uint32_t step = 0;
    for (size_t p = group.first; p < group.end; ++p) {
      for (const LoweredOp& op : programs_[p].lowered.ops) {
        uint32_t number = first;
        for (const int64_t assertion : AssertionsIn(op.kernel)) {
          const AssertionNote note = AssertionNoteOf(p, assertion, number, step);
          const auto known = assertions_.find({step, number++});
          if (known == assertions_.end()) continue;
          if (known->second.value != note.value || known->second.node != note.node) return false;
        }
        ++step;
      }
    }
    return true;
  };
  uint32_t first = 0;
  while (!is_free(first)) ++first;
  return first;
}

// The kernel of step `step` with its assertions numbered from `first`, so that layers share kernels.
Kernel PlanEmitter::NumberAssertions(size_t p, Kernel kernel, uint32_t step, uint32_t first) {
  const std::vector<int64_t> found = AssertionsIn(kernel);
  if (found.empty()) return kernel;
  Arena& arena = *out_.arena;
  const auto number = [&](Tape* tape) {
    std::vector<TapeInst> numbered(tape->begin(), tape->end());
    for (TapeInst& inst : numbered) {
      if (inst.op == TapeOp::kAssertFinite)
        inst.imm.i = first + (std::find(found.begin(), found.end(), inst.imm.i) - found.begin());
    }
    *tape = arena.Copy(numbered);
  };
  std::vector<Part> parts(kernel.parts.begin(), kernel.parts.end());
  for (Part& part : parts) {
    std::vector<Stage> stages(part.stages.begin(), part.stages.end());
    for (Stage& stage : stages) number(&stage.tape);
    for (Tape* tape : {&part.prologue, &part.body, &part.epilogue}) number(tape);
    part.stages = arena.Copy(stages);
  }
  kernel.parts = arena.Copy(parts);
  for (size_t i = 0; i < found.size(); ++i) {
    const uint32_t assertion = first + static_cast<uint32_t>(i);
    const AssertionNote note = AssertionNoteOf(p, found[i], assertion, step);
    assertions_.try_emplace({step, assertion}, note);
    assertion_notes_.push_back(TextOf(note));
  }
  return kernel;
}

}  // namespace rondo
