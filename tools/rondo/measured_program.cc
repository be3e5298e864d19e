#include "tools/rondo/measured_program.h"

#include <algorithm>

#include "formats/plan/plan_timeline.h"
#include "tools/rondo/timings.h"

namespace rondo::tools {
namespace {

constexpr int kHalvings = 50;
constexpr double kMostLonger = 1000;

double MedianOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return Quantile(times, 0.5);
}

// The steps of the run, for different costs of an event.
class Steps {
 public:
  Steps(const PlanData& plan, const Program& program, const std::vector<double>& with_events,
        const CostModel& costs)
      : costs_(costs), program_(program), with_events_(with_events) {
    for (uint32_t s = 0; s < program.steps.size(); ++s) known_.push_back(StepTime(costs, plan, program, s));
  }

  std::vector<double> Times(double event, double longer) const {
    std::vector<double> times = known_;
    for (uint32_t s = 0; s < times.size(); ++s) {
      const StepKind kind = program_.steps[s].kind;
      if (kind == StepKind::kCollectiveStart || kind == StepKind::kCollectiveWait) continue;
      const double one = with_events_[s] / RoundsOf(program_, s) - event;
      times[s] = std::max(one * longer, kLeastMeasured);
    }
    return times;
  }
  double EndOf(double event, double longer) const {
    return TimelineOf(costs_, program_, Times(event, longer)).end;
  }

 private:
  const CostModel& costs_;
  const Program& program_;
  const std::vector<double>& with_events_;
  std::vector<double> known_;
};

}  // namespace

MeasuredProgram WithoutEvents(const PlanData& plan, const Program& program, double run,
                              const std::vector<double>& with_events, const CostModel& costs) {
  const Steps steps(plan, program, with_events, costs);
  double event = 0, longer = 1;
  const bool longer_than_run = steps.EndOf(0, 1) > run;
  double low = longer_than_run ? 0 : 1, high = longer_than_run ? run : kMostLonger;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (longer_than_run ? event : longer) = middle;
    const bool too_long = steps.EndOf(event, longer) > run;
    (too_long == longer_than_run ? low : high) = middle;
  }
  return {run, steps.Times(event, longer), event, longer};
}

Result<MeasuredProgram> MeasureProgram(Session& session, uint32_t program, Span<const Input> inputs,
                                       int64_t runs, const CostModel& costs) {
  std::vector<double> times;
  std::vector<std::vector<double>> steps;
  for (const TimerDetail detail : {TimerDetail::kPartitions, TimerDetail::kSteps}) {
    RONDO_ASSIGN_OR_RETURN(RunTimer timer, RunTimer::Create(session, program, detail));
    RunOptions options;
    options.timer = &timer;
    if (detail == TimerDetail::kSteps) steps.resize(timer.size());
    for (int64_t run = -(runs + 9) / 10; run < runs; ++run) {
      RONDO_RETURN_IF_ERROR(session.Run(program, inputs, {}, options));
      RONDO_ASSIGN_OR_RETURN(const std::vector<TimedInterval> all, ReadAll(timer));
      if (run < 0) continue;
      if (detail == TimerDetail::kPartitions) times.push_back(LongestDevice(all));
      for (const TimedInterval& interval : all) {
        if (detail == TimerDetail::kSteps) steps[interval.index].push_back(interval.duration);
      }
    }
  }
  std::vector<double> with_events;
  for (std::vector<double>& of_step : steps) with_events.push_back(MedianOf(std::move(of_step)));
  const PlanData& plan = session.plan().data();
  return WithoutEvents(plan, plan.programs[program], MedianOf(std::move(times)), with_events, costs);
}

}  // namespace rondo::tools
