#include "compiler/codegen/cuda/add_modules.h"

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"

namespace rondo {

Result<std::string> CudaText(const PlanData& plan) {
  std::string text = CudaPrelude();
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    RONDO_ASSIGN_OR_RETURN(KernelText kernel, WriteKernelText(plan.kernels[k], static_cast<uint32_t>(k)));
    text += kernel.text;
  }
  return text;
}

Status AddCudaModules(EmittedPlan* emitted, const std::string& architecture, const std::string& library_path,
                      std::string* report) {
  PlanData& plan = emitted->plan;
  RONDO_ASSIGN_OR_RETURN(std::string text, CudaText(plan));
  RONDO_ASSIGN_OR_RETURN(std::vector<uint8_t> code, CompileCuda(text, architecture, library_path));
  std::vector<KernelImage> images;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    RONDO_ASSIGN_OR_RETURN(KernelText kernel, WriteKernelText(plan.kernels[k], static_cast<uint32_t>(k)));
    images.push_back({emitted->arena->CopyText(kernel.entry), kernel.grid});
  }
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
