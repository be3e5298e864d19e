// ScheduleForLeastMemory: finds an op order with a small peak of live bytes, by greedy heuristics, an exact
// search of bounded work, and a round of single moves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

struct ScheduleReport {
  int64_t peak_before = 0, peak_after = 0;  // live bytes of the arena: in the given order, in the chosen one
  int64_t least = 0;                        // a lower bound for all orders
  std::string method;  // the method that found the order: "given order", "exact search", ...
  int candidates = 0;  // orders tried, without single moves
  std::string text;    // one sentence for reports
  bool proven() const { return peak_after <= least; }  // that no order is better
};

// The largest sum of bytes alive at one step when the ops run in `order` (a permutation of their indices that
// respects their deps). A value that can take over another's memory in place counts once.
int64_t PeakLiveBytes(const LoweredProgram& program, const std::vector<int>& order);

// Puts program->ops into `order` (a permutation of their indices that respects their deps), deps renumbered.
void Reorder(const std::vector<int>& order, LoweredProgram* program);

// Reorders program->ops to the order with the least peak found, and renumbers deps; the given order wins
// ties. The program is cut where every order passes through one op, and only the parts with the highest peak
// are searched, until it is proven optimal or the work limit is reached. Deterministic: effort is counted in
// work, never in time. A loop is one op, its rounds in their order. Needs ops in a valid order. Takes
// milliseconds if the given order is proven optimal, a second or two at most in exact searches; the moves are
// quadratic in the ops of a part.
ScheduleReport ScheduleForLeastMemory(LoweredProgram* program);

}  // namespace rondo
