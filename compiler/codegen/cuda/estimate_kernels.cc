#include "compiler/codegen/cuda/estimate_kernels.h"

#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/element_cost.h"
#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/matmul/library_matmul.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/part_plan.h"
#include "compiler/memory/plan_memory.h"
#include "core/alignment.h"

namespace rondo {
namespace {

double LibraryTime(const Kernel& kernel, const CudaTarget& target) {
  const std::optional<LibraryMatmul> matmul = LibraryMatmulOf(kernel);
  if (!matmul || matmul->lhs.dtype == DType::kF32) return 0;
  const double time = cuda::LibraryMicroseconds(*matmul, target);
  return time < kNotEstimated ? time : 0;
}

// Parts run side by side, so that the time is the longest part's.
double GeneratedTime(const Kernel& kernel, const CudaTarget& target, Span<const cuda::ParamFacts> facts) {
  double longest = 0;
  for (const cuda::PartPlan& plan : cuda::PlanParts(kernel, target, facts)) {
    double time = plan.candidates.empty() ? kNotEstimated : plan.candidates[plan.chosen].microseconds;
    if (time == kNotEstimated)
      time = cuda::ElementCycles(plan) / cuda::GpuTableOf(target).cycles_a_microsecond;
    longest = std::max(longest, time);
  }
  return longest;
}

}  // namespace

std::vector<cuda::ParamFacts> FactsOf(const LoweredProgram& program, const LoweredOp& op) {
  std::vector<cuda::ParamFacts> facts;
  for (const LoweredBinding& param : op.params) {
    const bool constant = program.values[static_cast<size_t>(param.value)].kind == BufferKind::kConstant;
    const uint64_t within = AlignmentOf(param.byte_offset | static_cast<uint64_t>(param.stride));
    facts.push_back({std::min<uint64_t>(kArenaAlignment, within), constant});
  }
  return facts;
}

double EstimatedMicroseconds(const Kernel& kernel, bool by_library, const CudaTarget& target,
                             Span<const cuda::ParamFacts> facts) {
  return by_library ? LibraryTime(kernel, target) : GeneratedTime(kernel, target, facts);
}

void EstimateKernels(LoweredProgram* program, const CudaTarget& target,
                     const std::function<KernelConfiguration(const Kernel&)>& configuration) {
  for (LoweredOp& op : program->ops) {
    if (op.kind != LoweredKind::kKernel) continue;
    CudaTarget as_asked = target;
    if (configuration) as_asked.configuration = configuration(op.kernel);
    op.microseconds =
        EstimatedMicroseconds(op.kernel, op.library.has_value(), as_asked, FactsOf(*program, op));
  }
}

}  // namespace rondo
