// The passes that put compute beside collectives, one file each; OverlapCollectives (overlap.h) runs them.
// All respect the limits of an Arrangement.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "compiler/schedule/arrangement.h"
#include "formats/plan/timeline.h"

namespace rondo {

// Compares orders: by Simulate(steps, order, peers) and, if devices wait for one another, by the end of the
// run on all of them when this one has `order`.
struct Estimates {
  TimedSteps steps;  // by op of the program
  PeerTimes peers;
  std::function<double(const std::vector<int>& order)> end_of_run = nullptr;
  int devices = 1;  // devices that end_of_run looks at

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

// Moves ops that may run beside a collective to between its start and its wait, one by one as long as that
// ends the run earlier by estimate (move_compute.cc). For collective `only`, or for all if that is -1.
// `work`: the remaining budget of ops that simulations may look at.
void MoveComputeBesideCollectives(const Estimates& estimates, int only, Arrangement* arrangement,
                                  int64_t* work);

// An order found op by op by beam search (B. T. Lowerre, 1976): from some hundreds of prefixes, it keeps the
// continuations whose run ends earliest by a lower bound, among orders of at most `limit` live bytes. Of
// prefixes with the same ops, only those that may still be the best are kept, so programs of a dozen ops get
// the best order. No value if every prefix ends where no op fits (beam_order.cc).
std::optional<std::vector<int>> BeamOrder(const Arrangement& arrangement, const MemoryModel& model,
                                          const Estimates& estimates, int64_t limit);

}  // namespace rondo
