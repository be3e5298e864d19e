// Device times of runs, which `bench` tabulates and `--trace` draws.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "runtime/run_timer.h"
#include "runtime/session.h"

namespace rondo::tools {

// The value below which the share `share` of the sorted values lies.
double Quantile(const std::vector<double>& sorted, double share);

// All intervals in the timer, in the plan's order.
Result<std::vector<TimedInterval>> ReadAll(const RunTimer& timer);

// The largest time in microseconds from a device's first event to its last.
double LongestDevice(const std::vector<TimedInterval>& intervals);

// One replay for a trace: of partitions or of steps.
struct TracedReplay {
  uint32_t program = 0;
  TimerDetail detail = TimerDetail::kPartitions;
  std::vector<TimedInterval> intervals;
};

// A collective on one device in a replay of steps; times in microseconds. Steps between its start and its
// wait run beside it on GPUs that no other rank shares; there the collective has its own stream.
struct TracedCollective {
  uint32_t sync_point = 0, device = 0;
  uint32_t start = 0;         // the step that starts it
  double begin = 0, end = 0;  // of its start and its wait
  double beside = 0;          // of steps between the two that belong to no collective
  double waited = 0;          // time for which its wait delayed the device
};
// The collectives of a replay of steps, in the order of their starts.
std::vector<TracedCollective> CollectivesOf(const PlanData& plan, const TracedReplay& replay);

// The collectives of one device: the time with at least one in flight; the time of other steps during it
// (summed one after another); and the time for which waits delay the device.
struct DeviceOverlap {
  uint32_t device = 0, collectives = 0;
  double in_flight = 0, beside = 0, waited = 0;
};
std::vector<DeviceOverlap> OverlapOf(const PlanData& plan, const TracedReplay& replay);

// Chrome's trace format, which Perfetto opens. Each device is a process with a lane for its partitions, one
// for each stream, and one for its collectives in flight. Steps are named by their source nodes. The replays
// follow each other.
std::string TraceJson(const PlanData& plan, const std::vector<TracedReplay>& replays);
Status WriteTrace(const PlanData& plan, const std::vector<TracedReplay>& replays, const std::string& path);

}  // namespace rondo::tools
