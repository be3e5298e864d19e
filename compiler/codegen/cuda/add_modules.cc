#include "compiler/codegen/cuda/add_modules.h"

#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/library_product.h"

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

bool IsOfLibrary(const EmittedPlan& emitted, size_t kernel) {
  return kernel < emitted.library.size() && emitted.library[kernel].has_value();
}

// The image of a kernel that a library computes.
Result<KernelImage> LibraryImage(const Kernel& kernel, uint32_t algorithm, Arena& arena) {
  std::optional<LibraryProduct> product = LibraryProductOf(kernel);
  if (!product) {
    return Status::Error(Code::kInternal, "kernel \"%.*s\" is no product that a library has",
                         static_cast<int>(kernel.name.size()), kernel.name.data());
  }
  product->workspace_bytes =
      kernel.workspace_bytes > kWorkspaceSlack ? kernel.workspace_bytes - kWorkspaceSlack : 0;
  product->algorithm = algorithm;
  KernelImage image;
  image.kind = ImageKind::kLibraryProduct;
  image.product = arena.Copy(std::vector<LibraryProduct>{*product}).data();
  return image;
}

// Texts of the kernels that are generated; empty ones for those of a library.
Result<std::vector<KernelText>> WriteKernels(const EmittedPlan& emitted, const std::string& architecture,
                                             const ProductChoice& product) {
  const PlanData& plan = emitted.plan;
  CudaTarget target = TargetOf(architecture);
  target.product = product;
  std::vector<std::vector<ParamFacts>> facts = FactsOf(plan);
  std::vector<KernelText> kernels;
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    if (IsOfLibrary(emitted, k)) {
      kernels.emplace_back();
      continue;
    }
    RONDO_ASSIGN_OR_RETURN(KernelText kernel, WriteKernelText(plan.kernels[k], target, facts[k]));
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace

Result<std::string> CudaText(const PlanData& plan, const std::string& architecture) {
  EmittedPlan emitted;
  emitted.plan = plan;
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelText> kernels, WriteKernels(emitted, architecture, {}));
  std::string text = CudaPreludes();
  for (const KernelText& kernel : kernels) text += kernel.text;
  return text;
}

Status AddCudaModules(EmittedPlan* emitted, const UnitOptions& units, std::string* report,
                      const ProductChoice& product) {
  PlanData& plan = emitted->plan;
  Arena* arena = emitted->arena.get();
  RONDO_ASSIGN_OR_RETURN(std::vector<KernelText> kernels,
                         WriteKernels(*emitted, units.architecture, product));
  const std::string preludes = CudaPreludes();
  std::vector<std::string> texts;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (!IsOfLibrary(*emitted, k)) texts.push_back(preludes + kernels[k].text);
  }
  RONDO_ASSIGN_OR_RETURN(CompiledUnits compiled, CompileUnits(texts, units));

  std::vector<Span<const uint8_t>> codes;
  size_t bytes = 0;
  for (const std::vector<uint8_t>& code : compiled.codes) {
    codes.push_back(arena->Copy(code));
    bytes += code.size();
  }
  std::vector<KernelImage> images;
  size_t generated = 0;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (IsOfLibrary(*emitted, k)) {
      RONDO_ASSIGN_OR_RETURN(const KernelImage image,
                             LibraryImage(plan.kernels[k], *emitted->library[k], *arena));
      images.push_back(image);
      continue;
    }
    KernelImage image = {arena->CopyText(kernels[k].entry), kernels[k].grid, kernels[k].shared,
                         kernels[k].waits};
    image.code = compiled.code_of[generated++];
    image.block = kernels[k].block;
    image.tensor_maps = arena->Copy(kernels[k].tensor_maps);
    images.push_back(image);
  }
  CodeModule module;
  module.architecture = arena->CopyText(units.architecture);
  module.block = kCudaBlock;
  module.codes = arena->Copy(codes);
  module.images = arena->Copy(images);
  std::vector<CodeModule> modules = {module};
  plan.modules = arena->Copy(modules);
  *report = std::to_string(images.size()) + " kernels, " + std::to_string(images.size() - generated) +
            " of them by cuBLASLt, " + std::to_string(bytes) + " bytes of machine code for " +
            units.architecture;
  if (compiled.cached > 0) {
    *report += "; " + std::to_string(compiled.cached) + " of " + std::to_string(compiled.codes.size()) +
               " codes were in the cache";
  }
  return Status::Ok();
}

}  // namespace rondo
