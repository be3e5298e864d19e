#include "compiler/slow_kernels.h"

#include <algorithm>
#include <cstdio>

#include "formats/plan/plan_timeline.h"

namespace rondo {

std::string SlowKernel::Text() const {
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers),
                "takes %.0f µs %s, where its bytes and operations need %.1f µs: %.1f %% of the GPU",
                estimated, measured ? "as measured" : "by estimate", least, 100 * least / estimated);
  return "kernel " + kernel + (source.empty() ? "" : " (" + source + ")") + " " + numbers +
         (measured ? "" : "; rondo bench measures it");
}

std::vector<SlowKernel> SlowKernelsOf(const PlanData& plan) {
  constexpr double kTimes = 50, kShort = 20;
  std::vector<SlowKernel> slow;
  const CostModel costs = CostModelOf(plan);
  if (!OriginsOf(costs, plan).gpu) return slow;
  std::vector<bool> seen(plan.kernels.size(), false);
  for (const Program& program : plan.programs) {
    for (uint32_t s = 0; s < program.steps.size(); ++s) {
      const Step& step = program.steps[s];
      if (step.kind != StepKind::kLaunch || seen[step.kernel]) continue;
      seen[step.kernel] = true;
      const Kernel& kernel = plan.kernels[step.kernel];
      const double estimated = StepTime(costs, plan, program, s),
                   least = costs.LeastTime(&kernel, StepTraffic(plan, step));
      if (estimated < kShort || estimated < kTimes * least) continue;
      slow.push_back({std::string(kernel.name),
                      step.source < plan.sources.size() ? std::string(plan.sources[step.source]) : "",
                      estimated, costs.IsMeasured(kernel), least});
    }
  }
  std::stable_sort(slow.begin(), slow.end(),
                   [](const SlowKernel& a, const SlowKernel& b) { return a.estimated > b.estimated; });
  return slow;
}

}  // namespace rondo
