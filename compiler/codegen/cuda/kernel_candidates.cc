#include "compiler/codegen/cuda/kernel_candidates.h"

#include <optional>

#include "compiler/codegen/cuda/matmul/library_matmul.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/part_plan.h"

namespace rondo {

namespace {

// How many algorithms of a library's ranking are candidates. Those after the first are worth measuring, but
// have no estimate.
constexpr int64_t kAlgorithms = 4;

void AddLibrary(double microseconds, std::vector<KernelCandidate>* candidates) {
  for (int64_t algorithm = 1; algorithm <= kAlgorithms; ++algorithm) {
    KernelConfiguration configuration;
    configuration.variant = VariantId::kLibrary;
    if (algorithm > 1) configuration.algorithm = algorithm;
    candidates->push_back({configuration, algorithm > 1 ? kNotEstimated : microseconds});
  }
}

}  // namespace

std::vector<KernelCandidate> KernelCandidates(const Kernel& kernel, const CudaTarget& target,
                                              Span<const cuda::ParamFacts> params, const SplitOp* split) {
  std::vector<KernelCandidate> candidates;
  const std::vector<cuda::PartPlan> plans = cuda::PlanParts(kernel, target, params);
  if (const cuda::PartPlan* largest = cuda::LargestChoice(plans)) candidates = largest->candidates;
  if (const std::optional<LibraryMatmul> whole = LibraryMatmulOf(kernel)) {
    AddLibrary(cuda::LibraryMicroseconds(*whole, target), &candidates);
  } else if (split != nullptr) {
    if (const std::optional<LibraryMatmul> sums = LibraryMatmulOf(split->matmul.kernel))
      AddLibrary(cuda::LibraryMicroseconds(*sums, target) + cuda::MapMicroseconds(split->map.kernel, target),
                 &candidates);
  }
  return candidates;
}

std::vector<KernelConfiguration> TilesOf(VariantId variant, const CudaTarget& target) {
  for (const cuda::KernelVariant* one : cuda::kMatmulVariants) {
    if (one->variant == variant && one->tiles != nullptr) return one->tiles(target);
  }
  return {};
}

}  // namespace rondo
