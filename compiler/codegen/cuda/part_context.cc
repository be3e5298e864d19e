#include "compiler/codegen/cuda/part_context.h"

#include <cinttypes>
#include <cstdlib>

namespace rondo::cuda {

Result<PartLaunch> WithBlocks(PartLaunch launch, int64_t blocks) {
  constexpr int64_t kMost = 0x7fffffff;
  if (blocks > kMost) {
    return Status::Error(Code::kUnsupported, "a part needs %" PRId64 " blocks; the limit is %" PRId64, blocks,
                         kMost);
  }
  launch.blocks = static_cast<uint32_t>(blocks);
  return launch;
}

std::vector<size_t> ByStrideOfResult(const Part& part, size_t loops) {
  std::vector<size_t> order;
  for (size_t l = 0; l < loops; ++l) order.push_back(l);
  const auto* result = std::find_if(part.operands.begin(), part.operands.end(),
                                    [](const Operand& operand) { return operand.mode != Mode::kRead; });
  if (result == part.operands.end()) return order;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(result->strides[a]) > std::abs(result->strides[b]);
  });
  return order;
}

}  // namespace rondo::cuda
