#include "compiler/codegen/cuda/kernel_images.h"

#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/matmul/library_matmul.h"
#include "core/alignment.h"
#include "formats/machine_code/image_digest.h"

namespace rondo {

std::vector<std::vector<cuda::ParamFacts>> FactsOf(const PlanData& plan) {
  std::vector<std::vector<cuda::ParamFacts>> facts(plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    facts[k].assign(plan.kernels[k].num_params, {kMostAlignment, true});
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kLaunch || step.kernel >= facts.size()) continue;
      for (size_t p = 0; p < step.bindings.size() && p < facts[step.kernel].size(); ++p) {
        const Binding& binding = step.bindings[p];
        const Buffer& buffer = plan.buffers[binding.buffer];
        cuda::ParamFacts& fact = facts[step.kernel][p];
        fact.constant = fact.constant && buffer.kind == BufferKind::kConstant;
        fact.alignment = std::min(fact.alignment, AlignmentOf(buffer, binding));
      }
    }
  }
  return facts;
}

Result<KernelImage> LibraryImage(const Kernel& kernel, uint32_t algorithm, Arena& arena) {
  std::optional<LibraryMatmul> matmul = LibraryMatmulOf(kernel);
  if (!matmul) {
    return Status::Error(Code::kInternal, "kernel \"%.*s\" is no matmul that a library has",
                         static_cast<int>(kernel.name.size()), kernel.name.data());
  }
  matmul->workspace_bytes =
      kernel.workspace_bytes > kWorkspaceSlack ? kernel.workspace_bytes - kWorkspaceSlack : 0;
  matmul->algorithm = algorithm;
  KernelImage image;
  image.kind = ImageKind::kLibraryMatmul;
  image.matmul = arena.Copy(std::vector<LibraryMatmul>{*matmul}).data();
  return image;
}

KernelImage LaunchOf(const KernelText& text, const KernelConfiguration& asked, const std::string& whole,
                     Arena& arena) {
  KernelImage image = {arena.CopyText(text.entry), text.grid, text.shared, text.waits};
  image.block = text.block;
  image.tensor_maps = arena.Copy(text.tensor_maps);
  image.choice = arena.CopyText(Text(asked));
  image.text_digest = TextDigest(whole);
  return image;
}

}  // namespace rondo
