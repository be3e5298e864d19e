#include "formats/plan/true_size.h"

namespace rondo {

std::vector<TrueSize> TrueSizesOf(const PlanData& plan, const Program& program, uint32_t output) {
  const Port& port = program.outputs[output];
  std::vector<TrueSize> sizes;
  for (uint32_t dim = 0; dim < static_cast<uint32_t>(plan.buffers[port.buffer].shape.rank); ++dim) {
    const std::string name = SizeOutputName(port.name, dim);
    for (uint32_t by = 0; by < program.outputs.size(); ++by) {
      const Buffer& buffer = plan.buffers[program.outputs[by].buffer];
      if (program.outputs[by].name == name && buffer.dtype == DType::kI64 && buffer.shape.rank == 0)
        sizes.push_back({dim, by});
    }
  }
  return sizes;
}

}  // namespace rondo
