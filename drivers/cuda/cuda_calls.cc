#include "drivers/cuda/cuda_calls.h"

#include <algorithm>
#include <memory>
#include <new>

#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {
namespace {

constexpr uint64_t kAlignment = 64;  // of each argument

}  // namespace

Result<CudaCalls*> CudaCalls::Create(CudaDevice& device, const PlanData& plan, const OpRegistry* ops) {
  std::unique_ptr<CudaCalls> made(new (std::nothrow) CudaCalls(device));
  if (made == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for custom ops");
  RONDO_RETURN_IF_ERROR(made->Prepare(plan, ops));
  return made.release();
}

Status CudaCalls::Prepare(const PlanData& plan, const OpRegistry* ops) {
  CudaDevice::Use use(device_);
  RONDO_RETURN_IF_ERROR(calls_.Build(plan, ops, true, arena_));
  uint64_t most = 0;
  staged_ = arena_.New<Span<Staged>>(plan.custom_ops.size());
  for (size_t i = 0; i < plan.custom_ops.size(); ++i) {
    const CustomOp& op = plan.custom_ops[i];
    if (staged_.data() != nullptr) staged_[i] = arena_.New<Staged>(op.arguments.size());
    if (staged_.data() == nullptr || staged_[i].data() == nullptr)
      return Status::Error(Code::kOutOfMemory, "no host memory for custom ops");
    if (calls_.at(static_cast<uint32_t>(i))->info->op.enqueue != nullptr) continue;
    most = std::max({most, kAlignment, StageCall(op, staged_[i])});
  }
  return most == 0 ? Status::Ok() : AllocateBlock(most);
}

Status CudaCalls::AllocateBlock(uint64_t bytes) {
  const Api& api = device_.api();
  RONDO_RETURN_IF_ERROR(device_.Check(api.event_create(&copied_, kNoTiming), "creating an event"));
  void* block = nullptr;
  Status status = device_.Check(api.host_allocate(&block, bytes, kPortable), "page-locked memory");
  block_ = static_cast<uint8_t*>(block);
  return status.At("%llu bytes for the arguments of custom ops", static_cast<unsigned long long>(bytes));
}

// An output that takes an input's memory lies in the input's place, and is copied back from there.
uint64_t CudaCalls::StageCall(const CustomOp& call, Span<Staged> arguments) const {
  uint64_t end = 0;
  for (uint32_t i = 0; i < call.arguments.size(); ++i) {
    const CustomArgument& argument = call.arguments[i];
    Staged& staged = arguments[i];
    staged.absent = argument.absent;
    if (argument.alias != kNone) {
      staged.offset = arguments[argument.alias].offset;
    } else {
      staged.bytes = BytesOf(argument);
      staged.offset = end;
      end += (staged.bytes + kAlignment - 1) / kAlignment * kAlignment;
      staged.in = i < call.num_inputs;
      staged.out = argument.mode != Mode::kRead;
    }
  }
  return end;
}

CudaCalls::~CudaCalls() {
  CudaDevice::Use use(device_);
  calls_.Clear();
  if (copied_ != nullptr) device_.api().event_destroy(copied_);
  if (block_ != nullptr) device_.api().host_release(block_);
}

Status CudaCalls::CopyArguments(uint32_t op, Span<const DeviceAddress> addresses, CudaStream* stream,
                                bool back) {
  const Api& api = device_.api();
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Staged& staged = staged_[op][i];
    if (staged.bytes == 0 || !(back ? staged.out : staged.in)) continue;
    const Error error =
        back ? api.copy_in(addresses[i], block_ + staged.offset, staged.bytes, stream->handle)
             : api.copy_out(block_ + staged.offset, addresses[i], staged.bytes, stream->handle);
    RONDO_RETURN_IF_ERROR(device_.Check(error, "copying an argument of a custom op"));
  }
  return Status::Ok();
}

Status CudaCalls::Run(uint32_t op, Span<const DeviceAddress> addresses, CudaStream* stream, uint32_t step) {
  if (op >= staged_.size() || addresses.size() != staged_[op].size()) {
    return Status::Error(Code::kInvalidArgument, "custom op %u with %zu addresses cannot be called", op,
                         addresses.size());
  }
  const CallProgram& call = *calls_.at(op);
  if (call.info->op.enqueue != nullptr) {
    if (!stream->fault.ok()) return Status::Ok();
    CudaDevice::Use use(device_);
    return call.Enqueue(addresses.data(), stream->handle);
  }
  if (stream->recording) {
    return Status::Error(Code::kFailedPrecondition,
                         "a graph cannot contain a custom op that runs on the host");
  }
  return stream->fault.ok() ? RunOnHost(op, addresses, stream, step) : Status::Ok();
}

Status CudaCalls::RunOnHost(uint32_t op, Span<const DeviceAddress> addresses, CudaStream* stream,
                            uint32_t step) {
  const Api& api = device_.api();
  std::lock_guard<std::mutex> lock(mutex_);
  {
    CudaDevice::Use use(device_);
    RONDO_RETURN_IF_ERROR(device_.Check(api.stream_wait(stream->handle, copied_, 0), "waiting for an event"));
    RONDO_RETURN_IF_ERROR(CopyArguments(op, addresses, stream, false));
    RONDO_RETURN_IF_ERROR(device_.Check(api.stream_synchronize(stream->handle), "running on the device"));
  }
  if (stream->faults->taken != 0) return Status::Ok();
  uint64_t at[2 * RONDO_OP_MAX_ARGUMENTS];
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Staged& staged = staged_[op][i];
    at[i] = staged.absent ? 0 : reinterpret_cast<uint64_t>(block_ + staged.offset);
  }
  Status ran = calls_.at(op)->Run(at);  // outside of the context: the call may have a context of its own
  if (ran.code() == Code::kOutOfRange) {
    stream->fault = ran;
    stream->fault_step = step;
    return Status::Ok();
  }
  RONDO_RETURN_IF_ERROR(ran);
  CudaDevice::Use use(device_);
  RONDO_RETURN_IF_ERROR(CopyArguments(op, addresses, stream, true));
  return device_.Check(api.event_record(copied_, stream->handle, 0), "recording an event");
}

}  // namespace rondo::cuda
