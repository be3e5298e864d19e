// Timeline: when the steps of a program run, by estimate, with collectives beside them.
#ifndef RONDO_COMPILER_SCHEDULE_TIMELINE_H_
#define RONDO_COMPILER_SCHEDULE_TIMELINE_H_

#include <vector>

#include "compiler/fusion/lowered.h"

namespace rondo {

// Microseconds from the start of the run.
struct CollectiveTimes {
  double begin = 0, end = 0;
  double exposed = 0;  // that its wait holds its stream up
  double beside = 0;   // of compute, on any stream, while it runs
};

struct Timeline {
  double end = 0;      // of the run
  double exposed = 0;  // sum over the collectives
  std::vector<CollectiveTimes> collectives;
};

// The ops of `program` in `order`, a permutation of their numbers that respects their deps; `times` as
// OpTimes (cost_model.h) gives them. A stream runs its ops one after another, each after its deps;
// collectives run one after another on a stream of their own. `collectives[i].beside` only with `details`.
Timeline Simulate(const LoweredProgram& program, const std::vector<double>& times,
                  const std::vector<int>& order, bool details = false);

}  // namespace rondo

#endif  // RONDO_COMPILER_SCHEDULE_TIMELINE_H_
