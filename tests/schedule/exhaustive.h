// The best order of a small program, by trying all of them.
#ifndef RONDO_TESTS_SCHEDULE_EXHAUSTIVE_H_
#define RONDO_TESTS_SCHEDULE_EXHAUSTIVE_H_

#include <cstdint>
#include <vector>

#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/least_memory.h"
#include "compiler/schedule/op_times.h"
#include "compiler/schedule/overlap.h"

namespace rondo {

// The earliest end of all orders with an arena of at most `limit` bytes.
class Exhaustive {
 public:
  Exhaustive(const LoweredProgram& program, const OverlapOptions& options, int64_t limit)
      : program_(program), steps_(TimedStepsOf(options.costs, program)), limit_(limit) {}
  double Best() {
    std::vector<int> order;
    std::vector<bool> taken(program_.ops.size(), false);
    Extend(&order, &taken, 0);
    return best_;
  }

 private:
  void Extend(std::vector<int>* order, std::vector<bool>* taken, int started) {
    if (order->size() == taken->size()) {
      const double end = Simulate(steps_, *order).end;
      if (end >= best_) return;
      LoweredProgram ordered = program_;
      Reorder(*order, &ordered);
      if (PlanMemory(ordered).arena_bytes <= limit_) best_ = end;
      return;
    }
    for (size_t i = 0; i < taken->size(); ++i) {
      const LoweredOp& op = program_.ops[i];
      bool ready = !(*taken)[i];
      for (int d : op.deps) ready = ready && (*taken)[static_cast<size_t>(d)];
      const bool start = op.kind == LoweredKind::kCollectiveStart;
      if (!ready || (start && op.collective != started)) continue;
      (*taken)[i] = true;
      order->push_back(static_cast<int>(i));
      Extend(order, taken, started + start);
      order->pop_back();
      (*taken)[i] = false;
    }
  }
  const LoweredProgram& program_;
  const TimedSteps steps_;
  const int64_t limit_;
  double best_ = 1e30;
};

// Puts the program into the order that OverlapCollectives finds; by how much its end, as reported, is behind
// that of the best.
inline double OverlapAgainstTheBest(LoweredProgram* program, const OverlapOptions& options) {
  const int64_t arena = PlanMemory(*program).arena_bytes;
  const int64_t limit = arena + static_cast<int64_t>(static_cast<double>(arena) * options.budget);
  const double best = Exhaustive(*program, options, limit).Best();
  return OverlapCollectives(program, options).end_after / best;
}

}  // namespace rondo

#endif  // RONDO_TESTS_SCHEDULE_EXHAUSTIVE_H_
