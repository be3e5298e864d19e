#include "tools/rondo/timings.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/files.h"
#include "formats/plan/traffic.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPause = 50;  // microseconds between two replays of a trace

Json LaneName(const char* kind, uint32_t device, uint32_t lane, const std::string& name) {
  return {{"ph", "M"}, {"name", kind}, {"pid", device}, {"tid", lane}, {"args", {{"name", name}}}};
}

// Lane 0 is for partitions, and lane s + 1 for the steps of stream s.
Json Lanes(const PlanData& plan, const std::vector<TracedReplay>& replays) {
  std::set<std::pair<uint32_t, uint32_t>> lanes;
  for (const TracedReplay& replay : replays) {
    for (const TimedInterval& interval : replay.intervals) {
      const bool step = replay.detail == TimerDetail::kSteps;
      lanes.insert({interval.device, 0});
      if (step)
        lanes.insert({interval.device, plan.programs[replay.program].steps[interval.index].stream + 1});
    }
  }
  Json events = Json::array();
  for (const auto& [device, lane] : lanes) {
    events.push_back(LaneName("process_name", device, 0, "device " + std::to_string(device)));
    events.push_back(LaneName("thread_name", device, lane,
                              lane == 0 ? "graph replay" : "stream " + std::to_string(lane - 1)));
  }
  return events;
}

Json Slice(const TimedInterval& interval, uint32_t lane, double offset, const char* category,
           const std::string& name) {
  return {{"ph", "X"},
          {"name", name},
          {"cat", category},
          {"pid", interval.device},
          {"tid", lane},
          {"ts", offset + interval.begin},
          {"dur", interval.duration}};
}

Json StepSlice(const PlanData& plan, const TracedReplay& replay, const TimedInterval& interval,
               double offset) {
  const Program& program = plan.programs[replay.program];
  const Step& step = program.steps[interval.index];
  std::string name = SourceText(plan, step.source);
  const bool launch = step.kind == StepKind::kLaunch;
  const std::string what = StepText(plan, step);
  Json slice = Slice(interval, step.stream + 1, offset, "step", name.empty() ? what : name);
  const Traffic traffic = RunTraffic(plan, program, interval.index);
  slice["args"] = {{"program", std::string(program.name)},
                   {"step", interval.index},
                   {"rounds", RoundsOf(program, interval.index)},
                   {"kernel", what},
                   {"label", launch ? std::string(plan.kernels[step.kernel].label) : ""},
                   {"bytes_read", traffic.read},
                   {"bytes_written", traffic.written},
                   {"operations", traffic.operations}};
  return slice;
}

// A collective in flight: a pair of events, because several may be in flight at once.
void AddCollective(const PlanData& plan, const TracedReplay& replay, const TracedCollective& collective,
                   double offset, Json* events) {
  const Program& program = plan.programs[replay.program];
  const SyncPoint& point = program.sync_points[collective.sync_point];
  const uint32_t source = program.steps[collective.start].source;
  Json event = {{"ph", "b"},
                {"name", SourceText(plan, source)},
                {"cat", "collective"},
                {"id", collective.sync_point},
                {"pid", collective.device},
                {"tid", 0},
                {"ts", offset + collective.begin}};
  event["args"] = {{"program", std::string(program.name)},
                   {"op", Name(point.op)},
                   {"bytes", point.bytes},
                   {"compute_beside_us", collective.beside},
                   {"waited_us", collective.waited}};
  events->push_back(event);
  event.erase("args");
  event["ph"] = "e";
  event["ts"] = offset + collective.end;
  events->push_back(std::move(event));
}

Json PartitionSlice(const PlanData& plan, const TracedReplay& replay, const TimedInterval& interval,
                    double offset) {
  const Program& program = plan.programs[replay.program];
  const Partition& partition = program.partitions[interval.index];
  Json slice = Slice(interval, 0, offset, "partition",
                     std::string(program.name) + " partition " + std::to_string(interval.index));
  slice["args"] = {{"first_step", partition.first_step},
                   {"steps", partition.num_steps},
                   {"ends_because_of", Name(partition.reason)},
                   {"reason", std::string(partition.detail)}};
  return slice;
}

// From the begin of each partition's first step to the end of its last.
std::vector<TimedInterval> PartitionsOf(const PlanData& plan, const TracedReplay& replay) {
  if (replay.detail == TimerDetail::kPartitions) return replay.intervals;
  const Program& program = plan.programs[replay.program];
  std::vector<TimedInterval> partitions;
  for (uint32_t p = 0; p < program.partitions.size(); ++p) {
    const Partition& partition = program.partitions[p];
    const TimedInterval& first = replay.intervals[partition.first_step];
    const TimedInterval& last = replay.intervals[partition.first_step + partition.num_steps - 1];
    partitions.push_back({p, partition.device, first.begin, last.begin + last.duration - first.begin});
  }
  return partitions;
}

}  // namespace

double Quantile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

Result<std::vector<TimedInterval>> ReadAll(const RunTimer& timer) {
  std::vector<TimedInterval> intervals;
  for (uint32_t i = 0; i < timer.size(); ++i) {
    RONDO_ASSIGN_OR_RETURN(TimedInterval interval, timer.Read(i));
    intervals.push_back(interval);
  }
  return intervals;
}

double LongestDevice(const std::vector<TimedInterval>& intervals) {
  double longest = 0;
  for (const TimedInterval& interval : intervals) {
    longest = std::max(longest, interval.begin + interval.duration);
  }
  return longest;
}

std::vector<TracedCollective> CollectivesOf(const PlanData& plan, const TracedReplay& replay) {
  const Program& program = plan.programs[replay.program];
  std::vector<TracedCollective> all, open;
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    const TimedInterval& interval = replay.intervals[s];
    const double end = interval.begin + interval.duration;
    if (step.kind == StepKind::kCollectiveStart) {
      open.push_back({step.sync_point, step.device, s, interval.begin, end});
    } else if (step.kind == StepKind::kCollectiveWait) {
      const auto started = std::ranges::find_if(open, [&](const TracedCollective& c) {
        return c.sync_point == step.sync_point && c.device == step.device;
      });
      if (started == open.end()) continue;
      started->end = end;
      started->waited = interval.duration;
      all.push_back(*started);
      open.erase(started);
    } else {
      for (TracedCollective& c : open) c.beside += c.device == step.device ? interval.duration : 0;
    }
  }
  std::ranges::sort(all, {}, &TracedCollective::start);
  return all;
}

std::vector<DeviceOverlap> OverlapOf(const PlanData& plan, const TracedReplay& replay) {
  std::map<uint32_t, DeviceOverlap> devices;
  std::map<uint32_t, double> until;  // by device: the end of the collectives that have started so far
  const std::vector<TracedCollective> collectives = CollectivesOf(plan, replay);
  for (const TracedCollective& c : collectives) {
    DeviceOverlap& of = devices[c.device];
    of.device = c.device;
    ++of.collectives;
    of.waited += c.waited;
    double& ended = until[c.device];
    of.in_flight += std::max(0.0, c.end - std::max(c.begin, ended));
    ended = std::max(ended, c.end);
  }
  const Program& program = plan.programs[replay.program];
  for (const TimedInterval& interval : replay.intervals) {
    const StepKind kind = program.steps[interval.index].kind;
    const bool exchanges = kind == StepKind::kCollectiveStart || kind == StepKind::kCollectiveWait;
    const double middle = interval.begin + interval.duration / 2;  // begins and ends are rounded
    const bool beside = std::ranges::any_of(collectives, [&](const TracedCollective& c) {
      return c.device == interval.device && c.begin < middle && middle < c.end;
    });
    if (!exchanges && beside) devices[interval.device].beside += interval.duration;
  }
  std::vector<DeviceOverlap> all;
  for (const auto& [device, overlap] : devices) all.push_back(overlap);
  return all;
}

std::string TraceJson(const PlanData& plan, const std::vector<TracedReplay>& replays) {
  Json events = Lanes(plan, replays);
  double offset = 0;
  for (const TracedReplay& replay : replays) {
    for (const TimedInterval& interval : PartitionsOf(plan, replay)) {
      events.push_back(PartitionSlice(plan, replay, interval, offset));
    }
    for (const TimedInterval& interval : replay.intervals) {
      if (replay.detail == TimerDetail::kSteps) events.push_back(StepSlice(plan, replay, interval, offset));
    }
    if (replay.detail == TimerDetail::kSteps) {
      for (const TracedCollective& collective : CollectivesOf(plan, replay))
        AddCollective(plan, replay, collective, offset, &events);
    }
    offset += LongestDevice(replay.intervals) + kPause;
  }
  const Json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", events}};
  // Names come from files and need not be UTF-8.
  return JsonText(trace.dump(1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

Status WriteTrace(const PlanData& plan, const std::vector<TracedReplay>& replays, const std::string& path) {
  constexpr FileKind kTrace = {"a trace", "{\n \"displayTimeUnit\":"};
  const std::string text = TraceJson(plan, replays);
  return ReplaceFile(path, kTrace, text.data(), text.size()).At("--trace");
}

}  // namespace rondo::tools
