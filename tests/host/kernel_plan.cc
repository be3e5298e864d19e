#include "tests/host/kernel_plan.h"

namespace rondo::test {

uint32_t KernelPlan::Add(PartMaker& maker) {
  constexpr uint64_t kAlignment = 256;
  const auto number = static_cast<uint32_t>(kernels_.size());
  kernels_.push_back(maker.Make());
  std::vector<Binding> bindings;
  for (size_t p = 0; p < maker.sizes.size(); ++p) {
    Buffer buffer;
    buffer.alignment = kAlignment;
    buffer.bytes = static_cast<uint64_t>(maker.sizes[p] * ByteSize(maker.dtypes[p]));
    buffer.offset = program_.arena_bytes;
    program_.arena_bytes += (buffer.bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
    buffers_.push_back(buffer);
    bindings.push_back({static_cast<uint32_t>(buffers_.size() - 1), 0});
  }
  Step step;
  step.kernel = number;
  step.bindings = arena.Copy(bindings);
  steps_.push_back(step);
  program_.steps = steps_;
  data.kernels = kernels_;
  data.buffers = buffers_;
  data.programs = Span<const Program>(&program_, 1);
  return number;
}

}  // namespace rondo::test
