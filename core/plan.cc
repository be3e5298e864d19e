#include "core/plan.h"

namespace rondo {

const Loop* LoopOf(const Program& program, uint32_t step) {
  size_t low = 0, high = program.loops.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (program.loops[middle].end() <= step) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < program.loops.size() && program.loops[low].first_step <= step ? &program.loops[low] : nullptr;
}

uint32_t RoundsOf(const Program& program, uint32_t step) {
  const Loop* loop = LoopOf(program, step);
  return loop == nullptr ? 1 : loop->trips;
}

StepInRound Next(const Program& program, StepInRound at) {
  const Loop* loop = LoopOf(program, at.step);
  if (loop == nullptr || at.step + 1 != loop->end()) return {at.step + 1, at.round};
  return at.round + 1 == loop->trips ? StepInRound{loop->end(), 0}
                                     : StepInRound{loop->first_step, at.round + 1};
}

uint32_t CountPrograms(const PlanData& plan) {
  auto count = static_cast<uint32_t>(plan.programs.size());
  while (count > 0 && plan.programs[count - 1].variant_of != kNone) --count;
  return count;
}

}  // namespace rondo
