#include "compiler/codegen/kernel_profile.h"

namespace rondo {

KernelConfiguration KernelProfile::Of(const Kernel& kernel) const {
  if (choices.empty()) return {};
  const auto found = choices.find(KernelDigest(kernel));
  return found != choices.end() ? found->second : KernelConfiguration();
}

}  // namespace rondo
