#include "drivers/cuda/small/read_ahead.h"

#include <algorithm>

namespace rondo::cuda {
namespace {

// From where the parameter is bound to the last byte that the operand touches; 0: that is not plain.
uint64_t BytesOf(const Part& part, const Operand& operand) {
  if (operand.offset < 0 || !operand.indirects.empty() || !operand.guards.empty()) return 0;
  int64_t last = operand.offset;
  for (size_t l = 0; l < part.loops.size(); ++l) {
    if (operand.strides[l] < 0) return 0;
    last += operand.strides[l] * (part.loops[l] - 1);
  }
  return static_cast<uint64_t>((last + 1) * ByteSize(operand.dtype));
}

}  // namespace

StreamedWeights WeightsOf(const Kernel& kernel, const KernelImage& image) {
  StreamedWeights weights;
  if (image.relies.size() != kernel.num_params) return weights;
  for (const Part& part : kernel.parts) {
    if (part.skeleton != Skeleton::kContraction) continue;
    for (uint16_t index : part.rhs) {
      const Operand& operand = part.operands[index];
      const uint32_t relies = image.relies[operand.param];
      const uint64_t bytes = BytesOf(part, operand);
      const bool constant = (relies & kReliesOnConstant) != 0 && (relies & ~kReliesOnConstant) >= 16;
      if (constant && bytes > 0 && weights.count < small::kMostAhead)
        weights.of[weights.count++] = {operand.param, bytes};
    }
  }
  return weights;
}

void ReadAhead(const StreamedWeights& weights, Span<const DeviceAddress> addresses, small::Norm* norm) {
  uint64_t all = 0;
  for (uint32_t i = 0; i < weights.count; ++i) all += weights.of[i].bytes;
  if (all == 0) return;
  const double share = std::min(1.0, static_cast<double>(kMostReadAhead) / static_cast<double>(all));
  for (uint32_t i = 0; i < weights.count; ++i) {
    const auto bytes = static_cast<uint64_t>(static_cast<double>(weights.of[i].bytes) * share);
    norm->ahead[i] = {reinterpret_cast<const char*>(addresses[weights.of[i].param]), bytes / 16 * 16};
  }
}

}  // namespace rondo::cuda
