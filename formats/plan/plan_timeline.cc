#include "formats/plan/plan_timeline.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "formats/plan/peer_times.h"
#include "formats/plan/traffic.h"

namespace rondo {
namespace {

// The program's devices, with the position of each step among those of its device.
class Devices {
 public:
  Devices(const Program& program, const std::vector<double>& times, double taken) : program_(program) {
    std::vector<uint32_t> recorded_by(program.num_events, kNone);  // by event
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      if (program.steps[s].records != kNone) recorded_by[program.steps[s].records] = s;
    }
    for (uint32_t s = 0; s < program.steps.size(); ++s) Add(s, times[s], recorded_by);
    for (TimedDevice& device : timed_) {
      device.order.resize(device.steps.steps.size());
      std::iota(device.order.begin(), device.order.end(), 0);
      device.steps.collectives = device.groups.size();
      device.steps.taken = taken;
    }
  }

  ProgramTimeline Run() const {
    const std::vector<PeerTimes> peers = Meetings(timed_).Times(timed_);
    ProgramTimeline all;
    all.begins.resize(program_.steps.size());
    all.ends.resize(program_.steps.size());
    for (size_t d = 0; d < timed_.size(); ++d) {
      const Timeline line = Simulate(timed_[d].steps, timed_[d].order, peers[d], true);
      for (size_t i = 0; i < steps_[d].size(); ++i) {
        all.begins[steps_[d][i]] = line.begins[i];
        all.ends[steps_[d][i]] = line.ends[i];
      }
      for (size_t c = 0; c < line.collectives.size(); ++c)
        all.collectives.push_back({points_[d][c], timed_[d].device, line.collectives[c]});
      all.end = std::max(all.end, line.end);
    }
    return all;
  }

 private:
  size_t IndexOf(uint32_t device) {
    for (size_t d = 0; d < timed_.size(); ++d) {
      if (timed_[d].device == device) return d;
    }
    timed_.push_back({device, {}, {}, {}});
    steps_.emplace_back();
    points_.emplace_back();
    return timed_.size() - 1;
  }

  void Add(uint32_t s, double time, const std::vector<uint32_t>& recorded_by) {
    const Step& step = program_.steps[s];
    const size_t d = IndexOf(step.device);
    TimedStep timed{TimedKind::kCompute, step.stream, -1, time * RoundsOf(program_, s), {}};
    const auto add = [&](uint32_t before) {
      const auto at = std::lower_bound(steps_[d].begin(), steps_[d].end(), before);
      if (at != steps_[d].end() && *at == before)
        timed.deps.push_back(static_cast<int>(at - steps_[d].begin()));
    };
    for (uint32_t event : step.waits) add(recorded_by[event]);
    for (uint32_t before : step.after) add(before);
    if (step.kind == StepKind::kCollectiveStart) {
      const SyncPoint& point = program_.sync_points[step.sync_point];
      timed.kind = TimedKind::kStart;
      timed.collective = static_cast<int>(points_[d].size());
      started_[{step.device, step.sync_point}] = timed.collective;
      points_[d].push_back(step.sync_point);
      timed_[d].groups.emplace_back(point.participants.begin(), point.participants.end());
    } else if (const auto started = started_.find({step.device, step.sync_point});
               step.kind == StepKind::kCollectiveWait && started != started_.end()) {
      timed.kind = TimedKind::kWait;
      timed.collective = started->second;
    }
    steps_[d].push_back(s);
    timed_[d].steps.steps.push_back(std::move(timed));
  }

  const Program& program_;
  std::vector<TimedDevice> timed_;
  std::vector<std::vector<uint32_t>> steps_;   // by device: indices of steps in the program, ascending
  std::vector<std::vector<uint32_t>> points_;  // by device and collective
  std::map<std::pair<uint32_t, uint32_t>, int> started_;  // by device and sync point: index of the collective
};

bool IsForGpus(const PlanData& plan) {
  return plan.requirements.target.find("cuda:") != std::string_view::npos;
}

}  // namespace

CostModel CostModelOf(const PlanData& plan) {
  CostModel costs = CostModelOf(IsForGpus(plan), static_cast<uint32_t>(plan.requirements.devices.size()));
  if (std::optional<MeasuredTimes> measured = ParseMeasuredTimes(plan.sources))
    costs.measured = std::make_shared<const MeasuredTimes>(std::move(*measured));
  costs.estimated = std::make_shared<const KernelTimes>(ParseEstimates(plan.sources));
  return costs;
}

EstimateOrigins OriginsOf(const CostModel& costs, const PlanData& plan) {
  EstimateOrigins origins;
  origins.gpu = IsForGpus(plan);
  if (costs.measured != nullptr) origins.profile = costs.measured->profile;
  origins.kernels = plan.kernels.size();
  for (const Kernel& kernel : plan.kernels) origins.measured_kernels += costs.IsMeasured(kernel);
  for (const Program& program : plan.programs) {
    origins.sync_points += program.sync_points.size();
    for (const SyncPoint& point : program.sync_points)
      origins.measured_sync_points +=
          costs.IsMeasured(point.op, static_cast<int64_t>(point.bytes), point.participants.size());
  }
  return origins;
}

std::string EstimateOrigins::Text() const {
  const std::string table = gpu ? "the table of one H200" : "the table of one core";
  if (profile.empty()) return table;
  std::string text = "profile \"" + profile + "\": " + std::to_string(measured_kernels) + " of " +
                     std::to_string(kernels) + " kernels";
  if (sync_points > 0)
    text += " and " + std::to_string(measured_sync_points) + " of " + std::to_string(sync_points) +
            " collectives";
  return text + " as measured; the rest by " + table;
}

double StepTime(const CostModel& costs, const PlanData& plan, const Program& program, uint32_t step) {
  const Step& s = program.steps[step];
  if (s.kind == StepKind::kCollectiveWait) return 0;
  if (s.kind == StepKind::kCollectiveStart) {
    const SyncPoint& point = program.sync_points[s.sync_point];
    return costs.CollectiveTime(point.op, static_cast<int64_t>(point.bytes), point.participants.size());
  }
  return costs.KernelTime(s.kind == StepKind::kLaunch ? &plan.kernels[s.kernel] : nullptr,
                          StepTraffic(plan, s));
}

ProgramTimeline TimelineOf(const PlanData& plan, const Program& program) {
  const CostModel costs = CostModelOf(plan);
  std::vector<double> times;
  for (uint32_t s = 0; s < program.steps.size(); ++s) times.push_back(StepTime(costs, plan, program, s));
  return TimelineOf(costs, program, times);
}

ProgramTimeline TimelineOf(const CostModel& costs, const Program& program, const std::vector<double>& times) {
  ProgramTimeline timeline = Devices(program, times, costs.TakenFromCompute()).Run();
  timeline.end += costs.machine.run;
  return timeline;
}

}  // namespace rondo
