#include "compiler/codegen/kernel_profile.h"

#include "formats/machine_code/image_digest.h"
#include "formats/plan/format.h"

namespace rondo {

uint64_t KernelDigest(const Kernel& kernel) {
  Kernel plain = kernel;
  plain.label = {};
  // Scratch comes behind all parameters of operands.
  if (plain.workspace_param != kNoOperand) --plain.num_params;
  plain.workspace_param = kNoOperand;
  plain.workspace_bytes = 0;
  const std::string structure = KernelStructure(plain);
  return HashBytes(structure.data(), structure.size());
}

KernelConfiguration KernelProfile::Of(const Kernel& kernel) const {
  if (choices.empty()) return {};
  const auto found = choices.find(KernelDigest(kernel));
  return found != choices.end() ? found->second : KernelConfiguration();
}

}  // namespace rondo
