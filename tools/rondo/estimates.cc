#include "tools/rondo/estimates.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "formats/plan/plan_timeline.h"
#include "tools/rondo/plan_texts.h"

namespace rondo::tools {
namespace {

std::string CollectiveText(const SyncPoint& point) {
  return Printf("%s of %llu bytes among %zu", Name(point.op), static_cast<unsigned long long>(point.bytes),
                point.participants.size());
}

Estimate EstimateOf(const CostModel& costs, const PlanData& plan, const Program& program, uint32_t s,
                    const MeasuredTimes* measured) {
  const Step& step = program.steps[s];
  Estimate estimate;
  estimate.source = SourceText(plan, step.source);
  estimate.microseconds = StepTime(costs, plan, program, s);
  std::optional<double> other;
  if (step.kind == StepKind::kCollectiveStart) {
    const SyncPoint& point = program.sync_points[step.sync_point];
    const size_t ranks = point.participants.size();
    estimate.what = CollectiveText(point);
    estimate.from_profile = costs.IsMeasured(point.op, static_cast<int64_t>(point.bytes), ranks);
    if (measured != nullptr) other = measured->OfCollective(point.op, point.bytes, ranks, false);
  } else {
    estimate.what = StepText(plan, step);
    const bool launch = step.kind == StepKind::kLaunch;
    estimate.from_profile = launch && costs.IsMeasured(plan.kernels[step.kernel]);
    if (launch && measured != nullptr) other = measured->OfKernel(plan.kernels[step.kernel]);
  }
  estimate.measured = other.value_or(0);
  return estimate;
}

double InRun(const Estimate& estimate) {
  return estimate.microseconds * static_cast<double>(estimate.launches);
}

}  // namespace

std::vector<Estimate> EstimatesOf(const PlanData& plan, const Program& program,
                                  const MeasuredTimes* measured) {
  const CostModel costs = CostModelOf(plan);
  std::map<std::string, size_t> known;
  std::vector<Estimate> estimates;
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    if (program.steps[s].kind == StepKind::kCollectiveWait) continue;
    const Step& step = program.steps[s];
    const std::string what = step.kind == StepKind::kCollectiveStart
                                 ? CollectiveText(program.sync_points[step.sync_point])
                                 : StepText(plan, step);
    const auto [entry, added] = known.try_emplace(what, estimates.size());
    if (added) estimates.push_back(EstimateOf(costs, plan, program, s, measured));
    estimates[entry->second].launches += RoundsOf(program, s);
  }
  std::stable_sort(estimates.begin(), estimates.end(),
                   [](const Estimate& a, const Estimate& b) { return InRun(a) > InRun(b); });
  return estimates;
}

Section EstimateSection(const PlanData& plan, const Program& program, const MeasuredTimes* measured) {
  Section section;
  const bool times = EstimatesAreTimes(plan);
  const double run = TimelineOf(plan, program).end;
  const std::string name(program.name), origin = OriginsOf(CostModelOf(plan), plan).Text();
  section.title = times ? Printf("Program %s: a run takes %.1f µs by estimate", name.c_str(), run)
                        : Printf("Program %s: what takes how much of a run, by estimate", name.c_str());
  section.lines.push_back("by " + origin);
  if (!times)
    section.lines.push_back(
        "a run takes other times on each machine: rondo bench measures them, and with compile --profile "
        "estimates are by them");
  if (measured != nullptr) {
    CostModel costs = CostModelOf(plan);
    costs.measured = std::make_shared<const MeasuredTimes>(*measured);
    section.lines.push_back(Printf("by profile \"%s\" it takes %.1f µs", measured->profile.c_str(),
                                   EndWith(costs, plan, program)));
  }
  section.table.head = {"what", "launches"};
  if (times) section.table.head.push_back("µs");
  section.table.head.insert(section.table.head.end(), {"from", times ? "in a run" : "% of a run"});
  if (measured != nullptr) section.table.head.push_back("measured");
  if (measured != nullptr && times) section.table.head.push_back("times");
  section.table.head.push_back("source nodes");
  for (const Estimate& e : EstimatesOf(plan, program, measured)) {
    std::vector<std::string> row = {e.what, std::to_string(e.launches)};
    if (times) row.push_back(Printf("%.2f", e.microseconds));
    row.push_back(e.from_profile ? "profile" : "table");
    row.push_back(Printf("%.1f", times ? InRun(e) : 100 * InRun(e) / std::max(run, 1e-9)));
    if (measured != nullptr) {
      row.push_back(e.measured > 0 ? Printf("%.2f", e.measured) : "");
      if (times) row.push_back(e.measured > 0 ? Printf("%.2f", e.microseconds / e.measured) : "");
    }
    row.push_back(e.source);
    section.table.rows.push_back(std::move(row));
  }
  return section;
}

bool EstimatesAreTimes(const PlanData& plan) {
  const EstimateOrigins origins = OriginsOf(CostModelOf(plan), plan);
  return origins.gpu || !origins.profile.empty();
}

double EndWith(const CostModel& costs, const PlanData& plan, const Program& program) {
  std::vector<double> times;
  for (uint32_t s = 0; s < program.steps.size(); ++s) times.push_back(StepTime(costs, plan, program, s));
  return TimelineOf(costs, program, times).end;
}

}  // namespace rondo::tools
