// PartPlan: what computes each part of a kernel, decided before any text is written. Internal to
// compiler/codegen/cuda.
#pragma once

#include <vector>

#include "compiler/codegen/cuda/kernel_configuration.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

// A part by one of its candidates.
struct PartPlan {
  PartContext context;
  // All candidates, what each is written by, and which is chosen. Empty: the skeleton is not known.
  std::vector<KernelCandidate> candidates;
  std::vector<const KernelVariant*> by;
  size_t chosen = 0;

  // What is chosen. Everything left open, but a cluster, where templates have nothing to choose from.
  KernelConfiguration configuration() const;
  // Whether its candidates have names, by which one can be asked for.
  bool HasChoice() const;
};

// Given this part and this GPU, all candidates and what each would cost; and which is chosen: the one that
// the target asks for, or else the best by estimate.
PartPlan PlanPart(const PartContext& context);

// Appends the body of the part's function (the block's number is `block`). Errors: kUnsupported, for a part
// that no template can run.
Result<PartLaunch> WritePart(const PartPlan& plan, PartWriter* writer);

// Plans all parts, which come in the kernel's order. Each may fill the share of the GPU that its work is of
// the kernel's. The part with most work chooses the cluster that all have. All arguments must outlive the
// plans.
std::vector<PartPlan> PlanParts(const Kernel& kernel, const CudaTarget& target,
                                Span<const ParamFacts> params);

// Of the parts that have a choice, the one with most work, the first of equals; null if there is none.
const PartPlan* LargestChoice(const std::vector<PartPlan>& plans);

}  // namespace rondo::cuda
