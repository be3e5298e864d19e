#include "tools/rondo/kernel_timer.h"

#include <algorithm>

#include "tools/rondo/timings.h"

namespace rondo::tools {
namespace {

constexpr int kLaunches = 64;  // of one kernel, in one graph
constexpr uint64_t kAlignment = 4096;

}  // namespace

KernelTimer::~KernelTimer() {
  for (Module* module : modules_) device_->DestroyModule(module);
  for (const Block& block : {weights_, state_, arena_}) {
    if (block.bytes > 0) device_->Free(block.address, block.bytes);
  }
  if (begin_ != nullptr) device_->DestroyEvent(begin_);
  if (end_ != nullptr) device_->DestroyEvent(end_);
  if (stream_ != nullptr) device_->DestroyStream(stream_);
}

Status KernelTimer::Open() {
  RONDO_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
  RONDO_ASSIGN_OR_RETURN(begin_, device_->CreateTimedEvent());
  RONDO_ASSIGN_OR_RETURN(end_, device_->CreateTimedEvent());
  const DeviceBytes& bytes = plan_.requirements.devices[0];
  const struct {
    Block* block;
    uint64_t bytes;
  } blocks[] = {{&weights_, bytes.weights}, {&state_, bytes.state}, {&arena_, bytes.arena}};
  for (const auto& [block, size] : blocks) {
    if (size == 0) continue;
    RONDO_ASSIGN_OR_RETURN(block->address, device_->Allocate(size, kAlignment));
    block->bytes = size;
    RONDO_RETURN_IF_ERROR(device_->Fill(block->address, 0, size, stream_));
  }
  for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
    const Buffer& buffer = plan_.buffers[b];
    const bool lasts = buffer.kind == BufferKind::kConstant || buffer.kind == BufferKind::kState;
    if (lasts && buffer.device == 0 && buffer.bytes > 0) RONDO_RETURN_IF_ERROR(Fill(b));
  }
  uint32_t step = 0;
  return device_->Synchronize(stream_, &step);
}

Result<size_t> KernelTimer::Load(const PlanData& plan) {
  RONDO_ASSIGN_OR_RETURN(Module * module, device_->LoadModule(plan));
  modules_.push_back(module);
  return modules_.size() - 1;
}

DeviceAddress KernelTimer::AddressOf(const Binding& binding) const {
  const Buffer& buffer = plan_.buffers[binding.buffer];
  const Block& block = buffer.kind == BufferKind::kConstant ? weights_
                       : buffer.kind == BufferKind::kState  ? state_
                                                            : arena_;
  return block.address + buffer.offset + binding.offset;
}

Status KernelTimer::Fill(uint32_t index) {
  const Buffer& buffer = plan_.buffers[index];
  const DeviceAddress address = AddressOf({index, 0});
  const uint64_t count = buffer.bytes / static_cast<uint64_t>(ByteSize(buffer.dtype));
  if (IsFloat(buffer.dtype)) return device_->FillSynthetic(address, buffer.dtype, count, 1, 0.1f, stream_);
  if (buffer.dtype != DType::kI64) return device_->Fill(address, 0, buffer.bytes, stream_);
  std::vector<int64_t>& values = integers_[index];
  for (size_t i = values.size(); i < count; ++i)
    values.push_back(options_.first_integer + static_cast<int64_t>(i));
  return device_->CopyIn(address, values.data(), count * 8, stream_);
}

Status KernelTimer::FillAll(const std::set<uint32_t>& buffers) {
  for (uint32_t index : buffers) RONDO_RETURN_IF_ERROR(Fill(index));
  return Status::Ok();
}

// The time of one replay of what the stream recorded since BeginRecord. Before each replay, `given` are
// filled again.
Result<double> KernelTimer::TimeGraph(const std::set<uint32_t>& given) {
  RONDO_ASSIGN_OR_RETURN(Graph * graph, device_->EndRecord(stream_));
  std::vector<double> times;
  const auto replay = [&]() -> Status {
    RONDO_RETURN_IF_ERROR(FillAll(given));
    RONDO_RETURN_IF_ERROR(device_->Record(begin_, stream_));
    RONDO_RETURN_IF_ERROR(device_->LaunchGraph(graph, stream_));
    RONDO_RETURN_IF_ERROR(device_->Record(end_, stream_));
    uint32_t step = 0;
    RONDO_RETURN_IF_ERROR(device_->Synchronize(stream_, &step));
    RONDO_ASSIGN_OR_RETURN(const double time, device_->ElapsedMicroseconds(begin_, end_));
    times.push_back(time);
    return Status::Ok();
  };
  Status status;
  for (int64_t i = 0; i < options_.replays && status.ok(); ++i) status = replay();
  device_->DestroyGraph(graph);
  RONDO_RETURN_IF_ERROR(status);
  std::sort(times.begin(), times.end());
  return Quantile(times, 0.5);
}

Result<double> KernelTimer::Time(uint32_t kernel, size_t binaries) {
  std::vector<const Step*> steps;
  for (const Program& program : plan_.programs) {
    for (const Step& step : program.steps) {
      if (step.kind == StepKind::kLaunch && step.kernel == kernel && step.device == 0) steps.push_back(&step);
    }
  }
  if (steps.empty()) return Status::Error(Code::kInvalidArgument, "no step launches kernel %u", kernel);
  // Buffers that share memory in a run do not share it here.
  std::set<uint32_t> read;
  for (const Step* step : steps) {
    for (const Binding& binding : step->bindings) {
      const Buffer& buffer = plan_.buffers[binding.buffer];
      if (buffer.kind != BufferKind::kConstant && !IsFloat(buffer.dtype)) read.insert(binding.buffer);
    }
  }
  RONDO_RETURN_IF_ERROR(FillAll(read));
  RONDO_RETURN_IF_ERROR(device_->BeginRecord(stream_));
  for (size_t i = 0; i < kLaunches; ++i) {
    std::vector<DeviceAddress> addresses;
    for (const Binding& binding : steps[i % steps.size()]->bindings) addresses.push_back(AddressOf(binding));
    RONDO_RETURN_IF_ERROR(
        device_->Launch(modules_[binaries], kernel, Span<const DeviceAddress>(addresses), stream_, 0));
  }
  RONDO_ASSIGN_OR_RETURN(const double time, TimeGraph({}));
  return time / kLaunches;
}

Result<double> KernelTimer::TimeRun(const std::vector<size_t>& binaries) {
  double all = 0;
  for (const Program& program : plan_.programs) {
    // A run may overwrite inputs that it has read.
    std::set<uint32_t> inputs;
    for (const Port& port : program.inputs) {
      const Buffer& buffer = plan_.buffers[port.buffer];
      if (IsInput(buffer.kind) && buffer.device == 0 && buffer.bytes > 0) inputs.insert(port.buffer);
    }
    RONDO_RETURN_IF_ERROR(device_->BeginRecord(stream_));
    for (StepInRound at; at.step < program.steps.size(); at = Next(program, at)) {
      const uint32_t s = at.step;
      const Step& step = program.steps[s];
      if (step.device != 0) continue;
      std::vector<DeviceAddress> addresses;
      for (const Binding& binding : step.bindings) {
        addresses.push_back(AddressOf(binding) + static_cast<uint64_t>(binding.stride * int64_t{at.round}));
      }
      if (step.kind == StepKind::kLaunch) {
        RONDO_RETURN_IF_ERROR(device_->Launch(modules_[binaries[step.kernel]], step.kernel,
                                              Span<const DeviceAddress>(addresses), stream_, s));
      } else if (step.kind == StepKind::kCopy) {
        RONDO_RETURN_IF_ERROR(device_->Copy(addresses[1], addresses[0], step.bytes, stream_));
      }
    }
    RONDO_ASSIGN_OR_RETURN(const double time, TimeGraph(inputs));
    all += time;
  }
  return all;
}

}  // namespace rondo::tools
