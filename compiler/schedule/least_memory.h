// ScheduleForLeastMemory: the order of a program's ops with the smallest peak of live bytes that several
// greedy methods and a round of single moves find.
#ifndef RONDO_COMPILER_SCHEDULE_LEAST_MEMORY_H_
#define RONDO_COMPILER_SCHEDULE_LEAST_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

struct ScheduleReport {
  int64_t peak_before = 0, peak_after = 0;  // live bytes of the arena: in the given order, in the chosen one
  std::string method;                       // which candidate won: "given order", "least growth", ...
  int candidates = 0;                       // orders tried, single moves not counted
  std::string text;                         // one sentence for reports
};

// The largest sum of bytes alive at one step when the ops run in `order` (a permutation of their indices that
// respects their deps), counting a value that can take over another's memory in place once.
int64_t PeakLiveBytes(const LoweredProgram& program, const std::vector<int>& order);

// Puts program->ops into `order` (a permutation of their indices that respects their deps), deps renumbered.
void Reorder(const std::vector<int>& order, LoweredProgram* program);

// Puts program->ops into the order with the least peak that was found, deps renumbered; the given order wins
// ties. Deterministic. Needs ops in a valid order. Roughly quadratic in ops for the moves (seconds at
// 10,000).
ScheduleReport ScheduleForLeastMemory(LoweredProgram* program);

}  // namespace rondo

#endif  // RONDO_COMPILER_SCHEDULE_LEAST_MEMORY_H_
