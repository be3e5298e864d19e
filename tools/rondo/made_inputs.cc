#include "tools/rondo/made_inputs.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "core/synthetic.h"
#include "runtime/buckets/bucket_family.h"

namespace rondo::tools {
namespace {

// By buffer that kernels use directly as indices: the least extent that they index.
std::map<uint32_t, int64_t> IndexBounds(const PlanData& plan, const Program& program) {
  std::map<uint32_t, int64_t> bounds;
  for (const Step& step : program.steps) {
    if (step.kind != StepKind::kLaunch) continue;
    for (const Part& part : plan.kernels[step.kernel].parts) {
      for (const Operand& operand : part.operands) {
        for (const Indirect& indirect : operand.indirects) {
          const uint32_t buffer = step.bindings[part.operands[indirect.operand].param].buffer;
          const auto [bound, added] = bounds.try_emplace(buffer, indirect.extent);
          if (!added) bound->second = std::min(bound->second, indirect.extent);
        }
      }
    }
  }
  return bounds;
}

void FillIntegers(DType dtype, uint64_t count, const std::function<int64_t()>& next, uint8_t* bytes) {
  const auto size = static_cast<size_t>(ByteSize(dtype));
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t value = next();
    std::memcpy(bytes + i * size, &value, size);
  }
}

// Adds to `given` a tensor for each input of `program` that is neither a state nor among them.
// `fill(port, tensor, room)` sets its bytes; `room` is that of a bucket's length, or null.
template <typename Fill>
std::vector<Tensor> WithMissing(const PlanData& plan, uint32_t program, std::vector<Tensor> given,
                                const Fill& fill) {
  const std::map<std::string, int64_t> rooms = RoomsOf(plan, program);
  for (const Port& port : plan.programs[program].inputs) {
    const bool have = std::any_of(given.begin(), given.end(),
                                  [&](const Tensor& tensor) { return tensor.name == port.name; });
    if (have || port.is_state) continue;
    const Buffer& buffer = plan.buffers[port.buffer];
    Tensor tensor{std::string(port.name), buffer.dtype, buffer.shape, std::vector<uint8_t>(buffer.bytes)};
    const auto room = rooms.find(tensor.name);
    fill(port, &tensor, room == rooms.end() ? nullptr : &room->second);
    given.push_back(std::move(tensor));
  }
  return given;
}

}  // namespace

std::vector<Tensor> FillInputs(const PlanData& plan, uint32_t program, std::vector<Tensor> given) {
  return WithMissing(
      plan, program, std::move(given), [](const Port& port, Tensor* tensor, const int64_t* room) {
        FillSyntheticRange(tensor->dtype, SyntheticKey(1, port.name), 1.0f, 0,
                           tensor->bytes.size() / static_cast<uint64_t>(ByteSize(tensor->dtype)),
                           tensor->bytes.data());
        if (room != nullptr) std::memcpy(tensor->bytes.data(), room, sizeof *room);
      });
}

std::vector<Tensor> RandomInputs(const PlanData& plan, uint32_t program, std::vector<Tensor> given,
                                 uint64_t seed) {
  const std::map<uint32_t, int64_t> bounds = IndexBounds(plan, plan.programs[program]);
  return WithMissing(
      plan, program, std::move(given), [&](const Port& port, Tensor* tensor, const int64_t* room) {
        const uint64_t key = SyntheticKey(seed, port.name);
        const auto count = static_cast<uint64_t>(tensor->shape.elements());
        std::mt19937_64 random(key);
        const auto bound = bounds.find(port.buffer);
        int64_t below = 0;
        if (room == nullptr && bound != bounds.end()) below = bound->second;
        if (tensor->dtype == DType::kI8 || tensor->dtype == DType::kU8) below = 256;
        if (IsFloat(tensor->dtype))
          return FillSyntheticRange(tensor->dtype, key, 1.0f, 0, count, tensor->bytes.data());
        const int64_t fixed = room != nullptr ? *room : 1;
        FillIntegers(
            tensor->dtype, count,
            [&] { return below > 0 ? static_cast<int64_t>(random() % static_cast<uint64_t>(below)) : fixed; },
            tensor->bytes.data());
      });
}

}  // namespace rondo::tools
