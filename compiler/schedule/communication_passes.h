// The passes that put compute beside collectives, each a file of its own; OverlapCollectives (overlap.h) runs
// them. All keep to what an Arrangement allows.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/schedule/arrangement.h"
#include "formats/plan/timeline.h"

namespace rondo {

// What orders are compared by: Simulate(steps, order, peers); and, where devices wait for one another, when
// the run ends on all of them if this one has `order`.
struct Estimates {
  TimedSteps steps;  // by op of the program
  PeerTimes peers;
  std::function<double(const std::vector<int>& order)> end_of_run = nullptr;
  int devices = 1;  // that end_of_run looks at

  Timeline Of(const std::vector<int>& order) const {
    Timeline timeline = Simulate(steps, order, peers);
    if (end_of_run) timeline.end = end_of_run(order);
    return timeline;
  }
};

// Starts every collective as early as its inputs, those before it, and memory allow (raise_collectives.cc).
void RaiseCollectives(Arrangement* arrangement);

// Waits for every collective just before its result is needed, as far as memory allows (sink_waits.cc).
void SinkWaits(Arrangement* arrangement);

// Moves ops that need not come before a collective, or after it, to between its start and its wait, one by
// one where that ends the run earlier by estimate, until none does (move_compute.cc). Beside collective
// `only`, or, if that is -1, all of them. `work`: ops that simulations may look at in all; what is left of
// it.
void MoveComputeBesideCollectives(const Estimates& estimates, int only, Arrangement* arrangement,
                                  int64_t* work);

// The order that is found op by op: of all ways to go on from some hundreds of prefixes, those are kept whose
// run ends earliest by a lower bound (beam search: B. T. Lowerre, 1976); among orders of at most `limit` live
// bytes. Of prefixes with the same ops only those that may still be the best: programs of a dozen ops get the
// best order. None if every prefix comes to where no op fits (beam_order.cc).
std::optional<std::vector<int>> BeamOrder(const Arrangement& arrangement, const MemoryModel& model,
                                          const Estimates& estimates, int64_t limit);

}  // namespace rondo
