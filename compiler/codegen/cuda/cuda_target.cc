#include "compiler/codegen/cuda/cuda_target.h"

#include <optional>

#include "formats/machine_code/architecture.h"

namespace rondo {

CudaTarget TargetOf(const std::string& architecture) {
  CudaTarget target;
  const std::optional<CodeArchitecture> code = ParseArchitecture(architecture);
  const GpuTarget* gpu = FindGpuTarget(architecture);
  if (code) target.architecture = code->number;
  target.warp_groups = gpu != nullptr && gpu->wgmma;
  if (gpu == nullptr) return target;
  target.processors = gpu->processors;
  target.shared = gpu->shared;
  target.shared_processor = gpu->shared_processor;
  return target;
}

CudaTarget TargetOf(const std::string& architecture, Span<const Kernel> kernels) {
  CudaTarget target = TargetOf(architecture);
  for (const Kernel& kernel : kernels) {
    for (const Part& part : kernel.parts) target.begins_early |= part.packed.type != PackedType::kNone;
  }
  return target;
}

}  // namespace rondo
