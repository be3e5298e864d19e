#include "compiler/codegen/cuda/part_plan.h"

#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/attention/attention_variants.h"
#include "compiler/codegen/cuda/convolution/convolution_variants.h"
#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"
#include "compiler/codegen/cuda/reduction/reduction_variants.h"
#include "compiler/codegen/cuda/top_k/top_k_variants.h"

namespace rondo::cuda {

namespace {

double Work(const Part& part) {
  double work = 1;
  for (int64_t extent : part.loops) work *= static_cast<double>(extent);
  return work;
}

// The templates for a skeleton's parts, in order of preference.
Span<const KernelVariant* const> TemplatesOf(Skeleton skeleton) {
  switch (skeleton) {
    case Skeleton::kMap: return kMapVariants;
    case Skeleton::kReduction: return kReductionVariants;
    case Skeleton::kMatMul: return kMatmulVariants;
    case Skeleton::kConvolution: return kConvolutionVariants;
    case Skeleton::kAttention: return kAttentionVariants;
    case Skeleton::kTopK: return kTopKVariants;
  }
  return {};
}

bool IsTiledPacked(VariantId variant) {
  return variant == VariantId::kPackedTiles || variant == VariantId::kPackedRows ||
         variant == VariantId::kPackedDigits;
}

// Whether a template takes the part. Few templates support packed weights, sums of A beside a matmul, or
// convolutions with several weights.
bool Takes(const KernelVariant& one, const Part& part) {
  if (RhsThatAddsUp(part) >= 0)
    return one.variant == VariantId::kFewRows || one.variant == VariantId::kImma ||
           one.variant == VariantId::kPlain;
  if (part.skeleton == Skeleton::kConvolution && part.rhs.size() > 1) return one.variant == VariantId::kPlain;
  return part.packed.type == PackedType::kNone || one.variant == VariantId::kPacked ||
         IsTiledPacked(one.variant) || one.variant == VariantId::kPlain;
}

// Writes the lines that order a part with other kernels, unless its template writes them itself.
void WriteNeighbours(const PartContext& context, PartWriter* writer) {
  writer->Include("dependent_launch");
  const Skeleton skeleton = context.part.skeleton;
  // A kernel that begins early takes room on the multiprocessors, and the blocks of this one are then spread
  // unevenly. So a kernel that fills the GPU lets the next one begin late. A small one lets the next kernels
  // begin early: they can prefetch while this one still waits.
  const bool small = skeleton == Skeleton::kMap && context.target.begins_early &&
                     context.LeavesRoom(context.Points(0, context.part.loops.size()) / kCudaBlock);
  if (small) writer->Line("launch_dependents();");
  // Here nothing that an earlier kernel may touch is read or written before that kernel is complete. Other
  // templates first read what stays constant, and wait themselves.
  if (skeleton == Skeleton::kMap) writer->Line("wait_for_earlier();");
  const bool begins_next_itself = skeleton == Skeleton::kReduction || skeleton == Skeleton::kAttention;
  if (!small && !begins_next_itself) writer->Line("launch_dependents();");
}

// Puts the kernels that stream B first where they win. For few rows, no tiled kernel was faster than the
// stream of B in measurements. For packed weights this holds for the fewest rows, and as long as A of all of
// K fits beside the stream; with more rows, tiles unpack faster (tools/bench/results/packed-weights.md). For
// 8-bit integers, the stream takes as many instructions for every 8 rows as tiles do for 32.
void PutStreamsFirst(const PartContext& context, std::vector<KernelCandidate>* candidates) {
  constexpr int64_t kMostStreamed = 8, kMostStreamedBytes = 8, kMostStreamedDeep = 4, kDeep = 8192;
  const std::optional<MatmulProblem>& matmul = context.matmul;
  const bool tiled =
      matmul && (matmul->m > kMostStreamed || (matmul->m > kMostStreamedDeep && matmul->k >= kDeep));
  const DType type =
      matmul && !context.part.rhs.empty() ? context.part.operands[context.part.rhs[0]].dtype : DType::kF32;
  const bool bytes = Is8Bit(type) && matmul->m > kMostStreamedBytes;
  const auto first = [&](const KernelCandidate& one) {
    const VariantId variant = one.configuration.variant;
    if (variant == VariantId::kPackedDigits) return true;
    if (IsTiledPacked(variant)) return tiled;
    if (bytes && (variant == VariantId::kFewRows || variant == VariantId::kImma))
      return variant == VariantId::kImma;
    return variant == VariantId::kFewRows || (variant == VariantId::kPacked && !tiled);
  };
  double most = 0;
  for (const KernelCandidate& one : *candidates) {
    if (first(one)) most = std::max(most, one.microseconds);
  }
  for (KernelCandidate& one : *candidates) {
    if (!first(one)) one.microseconds += most;
  }
}

// The parts of a kernel share one launch: its blocks have as many threads as the largest needs. Wider blocks
// leave a thread fewer registers. ptxas refuses a wgmma instruction whose accumulators do not fit.
BlockNeeds Together(const BlockNeeds& a, const BlockNeeds& b) {
  return {std::max({a.threads, b.threads, uint32_t{kCudaBlock}}), std::max(a.registers, b.registers)};
}
bool FitTogether(const BlockNeeds& a, const BlockNeeds& b) {
  const uint32_t threads = Together(a, b).threads;
  const auto fits = [&](const BlockNeeds& one) {
    return one.registers <= RegistersOfThread(threads) ||
           std::max(one.threads, uint32_t{kCudaBlock}) == threads;
  };
  return fits(a) && fits(b);
}

}  // namespace

KernelConfiguration PartPlan::configuration() const {
  return candidates.empty() ? KernelConfiguration() : candidates[chosen].configuration;
}

bool PartPlan::HasChoice() const { return configuration().variant != VariantId::kAny; }

PartPlan PlanPart(const PartContext& context) {
  PartPlan plan = {context, {}, {}, 0};
  const Skeleton skeleton = context.part.skeleton;
  if (skeleton == Skeleton::kMatMul || skeleton == Skeleton::kConvolution)
    plan.context.matmul = MatmulProblemOf(context.part, context.params);
  for (const KernelVariant* one : TemplatesOf(skeleton)) {
    if (!Takes(*one, context.part)) continue;
    for (const KernelCandidate& candidate : one->candidates(plan.context)) {
      if (FitTogether(candidate.block, context.others)) plan.candidates.push_back(candidate);
    }
    plan.by.resize(plan.candidates.size(), one);
  }
  PutStreamsFirst(plan.context, &plan.candidates);
  if (!plan.candidates.empty()) plan.chosen = BestCandidate(plan.candidates, context.target.configuration);
  return plan;
}

Result<PartLaunch> WritePart(const PartPlan& plan, PartWriter* writer) {
  if (plan.by.empty()) {
    return Status::Error(Code::kUnsupported, "skeleton %d is not known",
                         static_cast<int>(plan.context.part.skeleton));
  }
  const KernelVariant& by = *plan.by[plan.chosen];
  for (std::string_view header : by.headers) writer->Include(header);
  WriteNeighbours(plan.context, writer);
  return by.write(plan.context, plan.configuration(), writer);
}

std::vector<PartPlan> PlanParts(const Kernel& kernel, const CudaTarget& target,
                                Span<const ParamFacts> params) {
  std::vector<size_t> order;
  double all = 0;
  for (size_t k = 0; k < kernel.parts.size(); ++k) {
    order.push_back(k);
    all += Work(kernel.parts[k]);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return Work(kernel.parts[a]) > Work(kernel.parts[b]); });
  std::vector<std::optional<PartPlan>> planned(kernel.parts.size());
  uint32_t cluster = 0;
  BlockNeeds needs;
  for (size_t k : order) {
    const Part& part = kernel.parts[k];
    const PartPlan& plan =
        planned[k].emplace(PlanPart({part, target, params, Work(part) / all, cluster, needs}));
    if (cluster == 0) cluster = static_cast<uint32_t>(std::max<int64_t>(1, plan.configuration().cluster));
    if (!plan.candidates.empty()) needs = Together(needs, plan.candidates[plan.chosen].block);
  }
  std::vector<PartPlan> plans;
  plans.reserve(planned.size());
  for (std::optional<PartPlan>& plan : planned) plans.push_back(*std::move(plan));
  return plans;
}

const PartPlan* LargestChoice(const std::vector<PartPlan>& plans) {
  const PartPlan* largest = nullptr;
  for (const PartPlan& plan : plans) {
    if (!plan.HasChoice()) continue;
    if (largest == nullptr || Work(plan.context.part) > Work(largest->context.part)) largest = &plan;
  }
  return largest;
}

}  // namespace rondo::cuda
