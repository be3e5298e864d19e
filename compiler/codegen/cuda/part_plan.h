// PartPlan: the chosen configuration of each part of a kernel, decided before text is generated. Internal to
// compiler/codegen/cuda.
#pragma once

#include <vector>

#include "compiler/codegen/cuda/kernel_configuration.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

// A part with its candidates and the chosen one.
struct PartPlan {
  PartContext context;
  // All candidates, the variant of each, and the chosen one. Empty: unknown skeleton.
  std::vector<KernelCandidate> candidates;
  std::vector<const KernelVariant*> by;
  size_t chosen = 0;

  // The chosen configuration. Everything is open except a cluster if the templates leave nothing to choose.
  KernelConfiguration configuration() const;
  // Whether its candidates have names, so that one can be requested.
  bool HasChoice() const;
};

// All candidates for this part and GPU with their costs, and the chosen one: the requested one, or else the
// best by estimate.
PartPlan PlanPart(const PartContext& context);

// Appends the body of the part's function (the block's index is `block`). Errors: kUnsupported for a part
// that no template can compute.
Result<PartLaunch> WritePart(const PartPlan& plan, PartWriter* writer);

// Plans all parts, in the kernel's order. Each may fill a share of the GPU equal to its share of the kernel's
// work. The part with the most work chooses the cluster for all, and the
// others fit their blocks to those of the parts with more work. All arguments must outlive the plans.
std::vector<PartPlan> PlanParts(const Kernel& kernel, const CudaTarget& target,
                                Span<const ParamFacts> params);

// The part with the most work among those with a choice, the first of equals; null if there is none.
const PartPlan* LargestChoice(const std::vector<PartPlan>& plans);

}  // namespace rondo::cuda
