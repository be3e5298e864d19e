// The best order of a small program, found by trying all orders.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/op_times.h"
#include "compiler/schedule/overlap.h"
#include "tests/schedule/all_orders.h"

namespace rondo {

// The earliest end of all orders with an arena of at most `limit` bytes.
inline double BestEnd(const LoweredProgram& program, const OverlapOptions& options, int64_t limit) {
  const TimedSteps steps = TimedStepsOf(options.costs, program);
  double best = 1e30;
  ForEachOrder(program, [&](const std::vector<int>& order) {
    const double end = Simulate(steps, order).end;
    if (end < best && FitsIn(program, order, limit)) best = end;
  });
  return best;
}

// Puts the program into the order that OverlapCollectives finds. Returns the difference between its reported
// end and that of the best order.
inline double OverlapAgainstTheBest(LoweredProgram* program, const OverlapOptions& options) {
  const int64_t arena = PlanMemory(*program).arena_bytes;
  const int64_t limit = arena + static_cast<int64_t>(static_cast<double>(arena) * options.budget);
  const double best = BestEnd(*program, options, limit);
  return OverlapCollectives(program, options).end_after / best;
}

}  // namespace rondo
