// Timeline: when the steps of a program run, by estimate, with collectives beside them, on one device and on
// several that wait for one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo {

enum class TimedKind : uint8_t { kCompute, kStart, kWait };  // of a collective

// All times in microseconds.
struct TimedStep {
  TimedKind kind = TimedKind::kCompute;
  uint32_t stream = 0;
  int collective = -1;    // of starts and waits
  double time = 0;        // of a start: what the collective takes; of a wait: nothing
  std::vector<int> deps;  // steps that must be complete
};

// What one device does.
struct TimedSteps {
  std::vector<TimedStep> steps;
  size_t collectives = 0;
  double taken = 0;  // of the multiprocessors that compute beside a collective would have
};

// What the other devices of its collectives have to do with a device's run. By collective; empty: they are
// where it is itself.
struct PeerTimes {
  std::vector<double> arrive;  // when the last of them has come to it
  std::vector<double> remain;  // from its end to the end of the run, there

  bool operator==(const PeerTimes&) const = default;
};

// Microseconds from the start of the run.
struct CollectiveTimes {
  double arrive = 0;  // when this device has come to it
  double begin = 0, end = 0;
  double exposed = 0;  // that its wait holds its stream up
  double beside = 0;   // of compute, on any stream, while it runs
};

struct Timeline {
  double end = 0;      // of the run, and, as far as it depends on this device, on the others
  double exposed = 0;  // sum over the collectives
  std::vector<CollectiveTimes> collectives;
  std::vector<double> begins, ends;  // by step; of a start: when it is enqueued
};

// The steps in `order`, a permutation of their numbers that respects their deps. A stream runs its steps one
// after another, each after its deps; collectives run one after another on a stream of their own, each once
// all its devices have come to it. Compute is longer by what collectives that were started before it take of
// the device meanwhile. `beside`, `begins` and `ends` only with `details`.
Timeline Simulate(const TimedSteps& steps, const std::vector<int>& order, const PeerTimes& peers = {},
                  bool details = false);

// From the end of each collective to the end of the run, on this device alone; `peers.remain` of later ones
// counts.
std::vector<double> RemainingTimes(const TimedSteps& steps, const std::vector<int>& order,
                                   const PeerTimes& peers);

}  // namespace rondo
