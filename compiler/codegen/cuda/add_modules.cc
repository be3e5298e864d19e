#include "compiler/codegen/cuda/add_modules.h"

#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"

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
    RONDO_ASSIGN_OR_RETURN(KernelText kernel,
                           WriteKernelText(plan.kernels[k], static_cast<uint32_t>(k), target, facts[k]));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

std::string Join(const std::vector<KernelText>& kernels) {
  std::string text = CudaPreludes();
  for (const KernelText& kernel : kernels) text += kernel.text;
  return text;
}

}  // namespace

Result<std::string> CudaText(const PlanData& plan, const std::string& architecture) {
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelText> kernels, WriteKernels(plan, architecture, {}));
  return Join(kernels);
}

Status AddCudaModules(EmittedPlan* emitted, const std::string& architecture, const std::string& library_path,
                      std::string* report, const ProductChoice& product) {
  PlanData& plan = emitted->plan;
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelText> kernels, WriteKernels(plan, architecture, product));
  RONDO_ASSIGN_OR_RETURN(std::vector<uint8_t> code, CompileCuda(Join(kernels), architecture, library_path));
  std::vector<KernelImage> images;
  for (const KernelText& kernel : kernels)
    images.push_back({emitted->arena->CopyText(kernel.entry), kernel.grid, kernel.shared, kernel.waits});
  CodeModule module;
  module.architecture = emitted->arena->CopyText(architecture);
  module.block = kCudaBlock;
  module.code = emitted->arena->Copy(code);
  module.images = emitted->arena->Copy(images);
  std::vector<CodeModule> modules = {module};
  plan.modules = emitted->arena->Copy(modules);
  *report = std::to_string(images.size()) + " kernels, " + std::to_string(code.size()) +
            " bytes of machine code for " + architecture;
  return Status::Ok();
}

}  // namespace rondo
