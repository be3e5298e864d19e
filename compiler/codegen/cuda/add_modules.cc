#include "compiler/codegen/cuda/add_modules.h"

#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"

namespace rondo {

namespace {

using cuda::ParamFacts;

// What every launch of each kernel has in common about the memory that its parameters are bound to.
std::vector<std::vector<ParamFacts>> FactsOf(const PlanData& plan) {
  constexpr uint64_t kMostAlignment = 256;
  std::vector<std::vector<ParamFacts>> facts(plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    facts[k].assign(plan.kernels[k].num_params, {kMostAlignment, true});
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kLaunch || step.kernel >= facts.size()) continue;
      for (size_t p = 0; p < step.bindings.size() && p < facts[step.kernel].size(); ++p) {
        const Binding& binding = step.bindings[p];
        const Buffer& buffer = plan.buffers[binding.buffer];
        ParamFacts& fact = facts[step.kernel][p];
        fact.constant = fact.constant && buffer.kind == BufferKind::kConstant;
        fact.alignment = std::min<uint64_t>(fact.alignment, buffer.alignment);
        while (fact.alignment > 1 && binding.offset % fact.alignment != 0) fact.alignment /= 2;
      }
    }
  }
  return facts;
}

Result<std::vector<KernelText>> WriteKernels(const PlanData& plan, const std::string& architecture,
                                             const ProductChoice& product) {
  CudaTarget target = TargetOf(architecture);
  target.product = product;
  std::vector<std::vector<ParamFacts>> facts = FactsOf(plan);
  std::vector<KernelText> kernels;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    RONDO_ASSIGN_OR_RETURN(KernelText kernel, WriteKernelText(plan.kernels[k], target, facts[k]));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace

Result<std::string> CudaText(const PlanData& plan, const std::string& architecture) {
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelText> kernels, WriteKernels(plan, architecture, {}));
  std::string text = CudaPreludes();
  for (const KernelText& kernel : kernels) text += kernel.text;
  return text;
}

Status AddCudaModules(EmittedPlan* emitted, const UnitOptions& units, std::string* report,
                      const ProductChoice& product) {
  PlanData& plan = emitted->plan;
  Arena* arena = emitted->arena.get();
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelText> kernels, WriteKernels(plan, units.architecture, product));
  const std::string preludes = CudaPreludes();
  std::vector<std::string> texts;
  for (const KernelText& kernel : kernels) texts.push_back(preludes + kernel.text);
  RONDO_ASSIGN_OR_RETURN(CompiledUnits compiled, CompileUnits(texts, units));

  std::vector<Span<const uint8_t>> codes;
  size_t bytes = 0;
  for (const std::vector<uint8_t>& code : compiled.codes) {
    codes.push_back(arena->Copy(code));
    bytes += code.size();
  }
  std::vector<KernelImage> images;
  for (size_t k = 0; k < kernels.size(); ++k) {
    KernelImage image = {arena->CopyText(kernels[k].entry), kernels[k].grid, kernels[k].shared,
                         kernels[k].waits};
    image.code = compiled.code_of[k];
    images.push_back(image);
  }
  CodeModule module;
  module.architecture = arena->CopyText(units.architecture);
  module.block = kCudaBlock;
  module.codes = arena->Copy(codes);
  module.images = arena->Copy(images);
  std::vector<CodeModule> modules = {module};
  plan.modules = arena->Copy(modules);
  *report = std::to_string(images.size()) + " kernels, " + std::to_string(bytes) +
            " bytes of machine code for " + units.architecture;
  if (compiled.cached > 0) {
    *report += "; " + std::to_string(compiled.cached) + " of " + std::to_string(compiled.codes.size()) +
               " codes were in the cache";
  }
  return Status::Ok();
}

}  // namespace rondo
