#include "compiler/codegen/cuda/kernel_text.h"

#include "compiler/codegen/cuda/part_text.h"

namespace rondo {

Result<KernelText> WriteKernelText(const Kernel& kernel, uint32_t number) {
  KernelText out;
  out.entry = "rondo_k" + std::to_string(number);
  std::string declared, passed;
  for (uint16_t p = 0; p < kernel.num_params; ++p) {
    declared += "char* p" + std::to_string(p) + ", ";
    passed += "p" + std::to_string(p) + ", ";
  }
  declared += "u64* faults, u32 step";
  passed += "faults, step";
  std::string calls;
  uint64_t blocks = 0;
  for (size_t k = 0; k < kernel.parts.size(); ++k) {
    cuda::PartText part(kernel.parts[k]);
    if (Status status = part.Write(); !status.ok()) {
      return status.At("kernel \"%.*s\", part %zu", static_cast<int>(kernel.name.size()), kernel.name.data(),
                       k);
    }
    std::string name = out.entry + "_part" + std::to_string(k);
    out.text += "static __device__ void " + name + "(u32 block, " + declared + ") {\n" + part.text() + "}\n";
    std::string first = std::to_string(blocks);
    blocks += part.blocks();
    if (blocks > 0x7fffffff) {
      return Status::Error(Code::kUnsupported, "kernel \"%.*s\" needs more than 2147483647 blocks",
                           static_cast<int>(kernel.name.size()), kernel.name.data());
    }
    calls += "if (blockIdx.x < " + std::to_string(blocks) + "u) { " + name + "(blockIdx.x - " + first +
             "u, " + passed + "); return; }\n";
  }
  out.text += "extern \"C\" __global__ void __launch_bounds__(256) " + out.entry + "(" + declared + ") {\n" +
              calls + "}\n";
  out.grid = static_cast<uint32_t>(blocks);
  return out;
}

}  // namespace rondo
