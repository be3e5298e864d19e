// Timeline: estimates when the steps of a program run, with collectives beside them, on one device and on
// several that wait for one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rondo {

enum class TimedKind : uint8_t { kCompute, kStart, kWait };  // the latter two of a collective

// All times in microseconds.
struct TimedStep {
  TimedKind kind = TimedKind::kCompute;
  uint32_t stream = 0;
  int collective = -1;    // of starts and waits
  double time = 0;        // start: the duration of the collective; wait: 0
  std::vector<int> deps;  // steps that must be complete
};

// What one device does.
struct TimedSteps {
  std::vector<TimedStep> steps;
  size_t collectives = 0;
  double taken = 0;  // fraction of the multiprocessors that a collective takes from compute beside it
};

// How the other devices of a device's collectives affect its run. By collective; empty: they are as far as
// this device.
struct PeerTimes {
  std::vector<double> arrive;  // when the last of them reaches it
  std::vector<double> remain;  // from its end to the end of the run on those devices

  bool operator==(const PeerTimes&) const = default;
};

// Microseconds from the start of the run.
struct CollectiveTimes {
  double arrive = 0;  // when this device reaches it
  double begin = 0, end = 0;
  double exposed = 0;  // how long its wait delays its stream
  double beside = 0;   // compute that runs during it, on any stream
};

struct Timeline {
  double end = 0;      // of the run, also on other devices as far as it depends on this one
  double exposed = 0;  // sum over the collectives
  std::vector<CollectiveTimes> collectives;
  std::vector<double> begins, ends;  // by step; of a start: when it is enqueued
};

// The steps in `order`, a permutation of their indices that respects their deps. A stream runs its steps one
// after another, each after its deps. Collectives run one after another on a stream of their own, each when
// all its devices have reached it. Compute takes longer by the share of the device that earlier collectives
// take meanwhile. `beside`, `begins` and `ends` are only filled with `details`.
Timeline Simulate(const TimedSteps& steps, const std::vector<int>& order, const PeerTimes& peers = {},
                  bool details = false);

// From the end of each collective to the end of the run, on this device alone; uses `peers.remain` of later
// ones.
std::vector<double> RemainingTimes(const TimedSteps& steps, const std::vector<int>& order,
                                   const PeerTimes& peers);

}  // namespace rondo
