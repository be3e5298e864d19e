#include "tools/rondo/step_values.h"

#include <algorithm>
#include <set>

#include "runtime/verify/accesses.h"
#include "runtime/verify/value_names.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/run_tensors.h"

namespace rondo::tools {
namespace {

void SortOnce(std::vector<uint32_t>* list) {
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
}

}  // namespace

std::vector<StepBuffers> BuffersOfSteps(const PlanData& plan, uint32_t program) {
  const verify::ProgramAccesses accesses(plan, program);
  std::vector<StepBuffers> steps(plan.programs[program].steps.size());
  for (uint32_t s = 0; s < steps.size(); ++s) {
    for (const verify::StepAccess& access : accesses.of(s)) {
      if (access.print.reads) steps[s].reads.push_back(access.buffer);
      if (access.print.writes) steps[access.end].writes.push_back(access.buffer);
    }
  }
  for (StepBuffers& step : steps) {
    SortOnce(&step.reads);
    SortOnce(&step.writes);
  }
  return steps;
}

std::vector<StepValue> WrittenValues(const std::vector<StepBuffers>& steps) {
  std::vector<StepValue> values;
  std::set<uint32_t> seen;
  for (auto s = static_cast<uint32_t>(steps.size()); s-- > 0;) {
    for (uint32_t buffer : steps[s].writes) {
      if (!seen.insert(buffer).second) continue;
      values.push_back({buffer, s, StepPhase::kAfter});
    }
  }
  std::reverse(values.begin(), values.end());
  return values;
}

RunOptions ValueTaker::options() {
  RunOptions options;
  options.stepwise = true;
  options.on_step = OnStep;
  options.user = this;
  return options;
}

Status ValueTaker::OnStep(void* user, uint32_t, uint32_t step, StepPhase phase) {
  const ValueTaker& taker = *static_cast<const ValueTaker*>(user);
  for (const StepValue& value : taker.wanted_) {
    if (value.step == step && value.phase == phase) RONDO_RETURN_IF_ERROR(taker.TakeOne(value));
  }
  return Status::Ok();
}

Status ValueTaker::TakeOne(const StepValue& value) const {
  const Buffer& buffer = session_.plan().data().buffers[value.buffer];
  Device* device = session_.device(buffer.device);
  if (device == nullptr) return Status::Ok();  // another process has the device
  std::vector<uint8_t> bytes(buffer.bytes);
  Stream* stream = session_.stream(buffer.device);
  uint32_t failed_step = kNone;
  RONDO_RETURN_IF_ERROR(
      device->CopyOut(bytes.data(), session_.BufferAddress(value.buffer), bytes.size(), stream));
  RONDO_RETURN_IF_ERROR(device->Synchronize(stream, &failed_step));
  return take_(value, std::move(bytes));
}

Status RunForValues(Session& session, uint32_t program, const std::vector<Tensor>& inputs,
                    const std::vector<StepValue>& wanted, const ValueTaker::Take& take) {
  ValueTaker taker(session, wanted, take);
  return session.Run(program, InputsOf(session.plan().data(), program, inputs), {}, taker.options());
}

Result<std::vector<StepValue>> ValuesCalled(const PlanData& plan, uint32_t program, const std::string& name) {
  const ValueNames names(plan);
  const std::vector<StepBuffers> steps = BuffersOfSteps(plan, program);
  const std::vector<StepValue> written = WrittenValues(steps);
  std::vector<uint32_t> buffers = names.Buffers(program, name);
  if (buffers.empty()) {
    for (uint32_t step : names.Steps(program, name))
      buffers.insert(buffers.end(), steps[step].writes.begin(), steps[step].writes.end());
    SortOnce(&buffers);
  }
  std::vector<StepValue> values;
  for (uint32_t buffer : buffers) {
    if (plan.buffers[buffer].kind == BufferKind::kWorkspace) continue;
    const auto last = std::find_if(written.begin(), written.end(),
                                   [&](const StepValue& value) { return value.buffer == buffer; });
    values.push_back(last != written.end() ? *last : StepValue{buffer, 0, StepPhase::kBefore});
  }
  if (values.empty()) return Status::Error(Code::kNotFound, "%s", names.NoBuffer(name).c_str());
  return values;
}

Result<Tensor> TensorOf(const PlanData& plan, uint32_t buffer, std::vector<uint8_t> bytes) {
  const Buffer& of = plan.buffers[buffer];
  const auto whole = static_cast<uint64_t>(of.shape.elements() * ByteSize(of.dtype));
  if (bytes.size() == whole) return Tensor{std::string(of.name), of.dtype, of.shape, std::move(bytes)};
  return Status::Error(Code::kUnsupported, "value \"%s\" lies in %zu bytes, its shape takes %llu",
                       std::string(of.name).c_str(), bytes.size(), static_cast<unsigned long long>(whole));
}

}  // namespace rondo::tools
