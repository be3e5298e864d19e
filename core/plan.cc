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

Turn Next(const Program& program, Turn turn) {
  const Loop* loop = LoopOf(program, turn.step);
  if (loop == nullptr || turn.step + 1 != loop->end()) return {turn.step + 1, turn.round};
  return turn.round + 1 == loop->trips ? Turn{loop->end(), 0} : Turn{loop->first_step, turn.round + 1};
}

}  // namespace rondo
