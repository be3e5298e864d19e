// Device times of runs: what `bench` tabulates and `--trace` draws.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "runtime/run_timer.h"
#include "runtime/session.h"

namespace rondo::tools {

// The value below which `share` of the sorted values lie.
double Quantile(const std::vector<double>& sorted, double share);

// Everything that the timer holds, in the plan's order.
Result<std::vector<TimedInterval>> ReadAll(const RunTimer& timer);

// Microseconds from a device's first event to its last, of the device that took longest.
double LongestDevice(const std::vector<TimedInterval>& intervals);

// One replay for a trace: of partitions or of steps.
struct TracedReplay {
  uint32_t program = 0;
  TimerDetail detail = TimerDetail::kPartitions;
  std::vector<TimedInterval> intervals;
};

// A collective on one device, of a replay of steps: those between its start and its wait run beside it, on
// GPUs that no other rank shares (there it has a stream of its own). Microseconds.
struct TracedCollective {
  uint32_t sync_point = 0, device = 0;
  uint32_t start = 0;         // the step that starts it
  double begin = 0, end = 0;  // of its start and its wait
  double beside = 0;          // of steps between the two that are of no collective
  double waited = 0;          // that its wait held the device up
};
// Of a replay of steps, in the order of their starts.
std::vector<TracedCollective> CollectivesOf(const PlanData& plan, const TracedReplay& replay);

// All of one device's: how long at least one is in flight, for how much of that steps of none run (their
// times, one after another), and how long waits hold it up.
struct DeviceOverlap {
  uint32_t device = 0, collectives = 0;
  double in_flight = 0, beside = 0, waited = 0;
};
std::vector<DeviceOverlap> OverlapOf(const PlanData& plan, const TracedReplay& replay);

// Chrome's trace format, which Perfetto opens: a process a device, a lane for its partitions, one for each
// of its streams, and what is in flight of its collectives; steps are named by their source nodes. The
// replays follow one another.
std::string TraceJson(const PlanData& plan, const std::vector<TracedReplay>& replays);
Status WriteTrace(const PlanData& plan, const std::vector<TracedReplay>& replays, const std::string& path);

}  // namespace rondo::tools
