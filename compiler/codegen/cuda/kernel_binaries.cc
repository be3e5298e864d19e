#include "compiler/codegen/cuda/kernel_binaries.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/codegen/cuda/matmul/library_matmul.h"
#include "core/alignment.h"
#include "formats/machine_code/binary_digest.h"

namespace rondo {

namespace {

// Bytes of constants that a run of the program reads, on the device that has most of them.
uint64_t ConstantBytes(const PlanData& plan, const Program& program) {
  std::set<uint32_t> counted;
  std::map<uint32_t, uint64_t> bytes;  // by device
  for (const Step& step : program.steps) {
    for (const Binding& binding : step.bindings) {
      if (binding.buffer == kNone) continue;  // an input that a custom op's call leaves out
      const Buffer& buffer = plan.buffers[binding.buffer];
      if (buffer.kind == BufferKind::kConstant && counted.insert(binding.buffer).second)
        bytes[buffer.device] += buffer.bytes;
    }
  }
  uint64_t most = 0;
  for (const auto& [device, sum] : bytes) most = std::max(most, sum);
  return most;
}

}  // namespace

std::vector<std::vector<cuda::ParamFacts>> FactsOf(const PlanData& plan) {
  std::vector<std::vector<cuda::ParamFacts>> facts(plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    facts[k].assign(plan.kernels[k].num_params, {kMostAlignment, true});
  for (const Program& program : plan.programs) {
    const uint64_t constants = ConstantBytes(plan, program);
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kLaunch || step.kernel >= facts.size()) continue;
      for (size_t p = 0; p < step.bindings.size() && p < facts[step.kernel].size(); ++p) {
        const Binding& binding = step.bindings[p];
        const Buffer& buffer = plan.buffers[binding.buffer];
        cuda::ParamFacts& fact = facts[step.kernel][p];
        fact.constant = fact.constant && buffer.kind == BufferKind::kConstant;
        fact.all_constants = std::max(fact.all_constants, constants);
        fact.alignment = std::min(fact.alignment, AlignmentOf(buffer, binding));
      }
    }
  }
  return facts;
}

Result<KernelBinary> LibraryBinary(const Kernel& kernel, uint32_t algorithm, Arena& arena) {
  std::optional<LibraryMatmul> matmul = LibraryMatmulOf(kernel);
  if (!matmul) {
    return Status::Error(Code::kInternal, "kernel \"%.*s\" is no matmul that a library has",
                         static_cast<int>(kernel.name.size()), kernel.name.data());
  }
  matmul->workspace_bytes =
      kernel.workspace_bytes > kWorkspaceSlack ? kernel.workspace_bytes - kWorkspaceSlack : 0;
  matmul->algorithm = algorithm;
  KernelBinary binary;
  binary.kind = BinaryKind::kLibraryMatmul;
  binary.matmul = arena.Copy(std::vector<LibraryMatmul>{*matmul}).data();
  return binary;
}

KernelBinary LaunchOf(const KernelText& text, const KernelConfiguration& asked, const std::string& whole,
                      Arena& arena) {
  KernelBinary binary = {arena.CopyText(text.entry), text.grid, text.shared, text.waits};
  binary.block = text.block;
  binary.tensor_maps = arena.Copy(text.tensor_maps);
  binary.choice = arena.CopyText(Text(asked));
  binary.text_digest = TextDigest(whole);
  return binary;
}

}  // namespace rondo
