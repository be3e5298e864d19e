// PartPlan: what computes each part of a kernel, decided before any text is written. Internal to
// compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_PART_PLAN_H_
#define RONDO_COMPILER_CODEGEN_CUDA_PART_PLAN_H_

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_candidates.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

struct MatmulTemplate;

// A matmul by one of its candidates, or any part by a template.
struct PartPlan {
  PartContext context;
  // Of a matmul that families take: all candidates, and which is chosen. Else none.
  std::optional<MatmulProblem> problem;
  std::vector<MatmulCandidate> candidates;
  size_t chosen = 0;
  const MatmulTemplate* family = nullptr;  // of the candidate chosen
  const PartTemplate* by = nullptr;        // where there are no candidates; null: the skeleton is not known

  // What is chosen; everything left open where a template without candidates is.
  MatmulConfiguration configuration() const;
  uint32_t cluster() const;  // blocks
  Span<const std::string_view> headers() const;
};

// Of candidates, the one that the target asks for, or else the best by estimate.
PartPlan PlanPart(const PartContext& context);

// Appends the body of the part's function (the block's number is `block`). Errors: kUnsupported, for a part
// that no template can run.
Result<PartLaunch> WritePart(const PartPlan& plan, PartWriter* writer);

// Plans all parts, which come in the kernel's order. Each may fill the share of the GPU that its work is of
// the kernel's. The part with most work chooses the cluster that all have. All arguments must outlive the
// plans.
std::vector<PartPlan> PlanParts(const Kernel& kernel, const CudaTarget& target,
                                Span<const ParamFacts> params);

// Of the parts that have candidates, the one with most work, the first of equals; null if there is none.
const PartPlan* LargestMatmul(const std::vector<PartPlan>& plans);

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_PART_PLAN_H_
