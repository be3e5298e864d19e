// ScheduleForLeastMemory: the order of a program's ops with the smallest peak of live bytes that greedy
// methods, an exact search of bounded work and a round of single moves find.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

struct ScheduleReport {
  int64_t peak_before = 0, peak_after = 0;  // live bytes of the arena: in the given order, in the chosen one
  int64_t least = 0;                        // no order has a peak below this
  std::string method;                       // what found the order: "given order", "exact search", ...
  int candidates = 0;                       // orders tried, single moves not counted
  std::string text;                         // one sentence for reports
  bool proven() const { return peak_after <= least; }  // that no order is better
};

// The largest sum of bytes alive at one step when the ops run in `order` (a permutation of their indices that
// respects their deps), counting a value that can take over another's memory in place once.
int64_t PeakLiveBytes(const LoweredProgram& program, const std::vector<int>& order);

// Puts program->ops into `order` (a permutation of their indices that respects their deps), deps renumbered.
void Reorder(const std::vector<int>& order, LoweredProgram* program);

// Puts program->ops into the order with the least peak that was found, deps renumbered; the given order wins
// ties. The program is cut where every order passes through one op, and only the parts with the highest
// peak are looked at, until that is proven least or the work allowed is done. Deterministic: effort is
// counted in work, never in time. A loop is one op, its rounds as they stand. Needs ops in a valid order.
// Takes milliseconds where the given order is proven least, a second or two at most in exact searches; the
// moves are quadratic in the ops of a part.
ScheduleReport ScheduleForLeastMemory(LoweredProgram* program);

}  // namespace rondo
