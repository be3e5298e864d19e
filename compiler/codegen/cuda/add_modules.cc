#include "compiler/codegen/cuda/add_modules.h"

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"

namespace rondo {

namespace {

Result<std::vector<KernelText>> WriteKernels(const PlanData& plan) {
  std::vector<KernelText> kernels;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    RONDO_ASSIGN_OR_RETURN(KernelText kernel, WriteKernelText(plan.kernels[k], static_cast<uint32_t>(k)));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

std::string Join(const std::vector<KernelText>& kernels) {
  std::string text = CudaPrelude();
  for (const KernelText& kernel : kernels) text += kernel.text;
  return text;
}

}  // namespace

Result<std::string> CudaText(const PlanData& plan) {
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelText> kernels, WriteKernels(plan));
  return Join(kernels);
}

Status AddCudaModules(EmittedPlan* emitted, const std::string& architecture, const std::string& library_path,
                      std::string* report) {
  PlanData& plan = emitted->plan;
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelText> kernels, WriteKernels(plan));
  RONDO_ASSIGN_OR_RETURN(std::vector<uint8_t> code, CompileCuda(Join(kernels), architecture, library_path));
  std::vector<KernelImage> images;
  for (const KernelText& kernel : kernels)
    images.push_back({emitted->arena->CopyText(kernel.entry), kernel.grid});
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
