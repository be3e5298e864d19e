#include "tools/rondo/kernel_timer.h"

#include <algorithm>

#include "tools/rondo/timings.h"

namespace rondo::tools {
namespace {

constexpr int kLaunches = 64;  // of one graph
constexpr uint64_t kAlignment = 256;
constexpr uint64_t kMostPool = 256 << 20;

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

KernelTimer::~KernelTimer() {
  for (Module* module : modules_) device_->DestroyModule(module);
  for (const auto& [buffer, address] : addresses_) device_->Free(address, plan_.buffers[buffer].bytes);
  if (pool_bytes_ > 0) device_->Free(pool_, pool_bytes_);
  if (begin_ != nullptr) device_->DestroyEvent(begin_);
  if (end_ != nullptr) device_->DestroyEvent(end_);
  if (stream_ != nullptr) device_->DestroyStream(stream_);
}

Status KernelTimer::Open() {
  RONDO_ASSIGN_OR_RETURN(stream_, device_->CreateStream());
  RONDO_ASSIGN_OR_RETURN(begin_, device_->CreateTimedEvent());
  RONDO_ASSIGN_OR_RETURN(end_, device_->CreateTimedEvent());
  if (!options_.rotate || plan_.requirements.devices.empty()) return Status::Ok();
  uint64_t largest = 0;
  for (const Buffer& buffer : plan_.buffers) {
    if (buffer.kind == BufferKind::kConstant) largest = std::max(largest, Aligned(buffer.bytes));
  }
  if (largest == 0) return Status::Ok();
  const uint64_t bytes = std::max(largest, std::min(plan_.requirements.devices[0].weights, kMostPool));
  RONDO_ASSIGN_OR_RETURN(pool_, device_->Allocate(bytes, kAlignment));
  pool_bytes_ = bytes;
  // Read as f16, bf16 or f32, these are numbers of moderate size.
  RONDO_RETURN_IF_ERROR(device_->FillSynthetic(pool_, DType::kBF16, bytes / 2, 1, 0.1f, stream_));
  uint32_t step = 0;
  return device_->Synchronize(stream_, &step);
}

Result<size_t> KernelTimer::Load(const PlanData& plan) {
  RONDO_ASSIGN_OR_RETURN(Module * module, device_->LoadModule(plan));
  modules_.push_back(module);
  return modules_.size() - 1;
}

Status KernelTimer::Fill(DeviceAddress address, const Buffer& buffer, uint64_t bytes) {
  const uint64_t count = bytes / static_cast<uint64_t>(ByteSize(buffer.dtype));
  if (IsFloat(buffer.dtype)) {
    RONDO_RETURN_IF_ERROR(device_->FillSynthetic(address, buffer.dtype, count, 1, 0.1f, stream_));
  } else if (buffer.dtype != DType::kI64) {
    RONDO_RETURN_IF_ERROR(device_->Fill(address, 0, bytes, stream_));
  } else {
    std::vector<int64_t> values(count);
    for (size_t i = 0; i < values.size(); ++i) values[i] = options_.first_integer + static_cast<int64_t>(i);
    RONDO_RETURN_IF_ERROR(device_->CopyIn(address, values.data(), count * 8, stream_));
    uint32_t step = 0;
    return device_->Synchronize(stream_, &step);
  }
  uint32_t step = 0;
  return device_->Synchronize(stream_, &step);
}

Result<DeviceAddress> KernelTimer::AddressOf(uint32_t index) {
  if (auto found = addresses_.find(index); found != addresses_.end()) return found->second;
  const Buffer& buffer = plan_.buffers[index];
  RONDO_ASSIGN_OR_RETURN(const DeviceAddress address, device_->Allocate(buffer.bytes, kAlignment));
  addresses_[index] = address;
  RONDO_RETURN_IF_ERROR(Fill(address, buffer, buffer.bytes));
  return address;
}

Result<DeviceAddress> KernelTimer::NextConstant(const Buffer& buffer) {
  const uint64_t bytes = Aligned(buffer.bytes);
  if (pool_at_ + bytes > pool_bytes_) pool_at_ = 0;
  const DeviceAddress address = pool_ + pool_at_;
  pool_at_ += bytes;
  return address;
}

Result<double> KernelTimer::TimeGraph(Graph* graph) {
  std::vector<double> times;
  for (int64_t i = 0; i < options_.replays; ++i) {
    RONDO_RETURN_IF_ERROR(device_->Record(begin_, stream_));
    RONDO_RETURN_IF_ERROR(device_->LaunchGraph(graph, stream_));
    RONDO_RETURN_IF_ERROR(device_->Record(end_, stream_));
    uint32_t step = 0;
    RONDO_RETURN_IF_ERROR(device_->Synchronize(stream_, &step));
    RONDO_ASSIGN_OR_RETURN(const double time, device_->ElapsedMicroseconds(begin_, end_));
    times.push_back(time / kLaunches);
  }
  std::sort(times.begin(), times.end());
  return Quantile(times, 0.5);
}

Result<double> KernelTimer::Time(uint32_t kernel, size_t images) {
  std::vector<const Step*> steps;
  for (const Program& program : plan_.programs) {
    for (const Step& step : program.steps) {
      if (step.kind == StepKind::kLaunch && step.kernel == kernel) steps.push_back(&step);
    }
  }
  if (steps.empty()) return Status::Error(Code::kInvalidArgument, "no step launches kernel %u", kernel);
  std::vector<std::vector<DeviceAddress>> launches(kLaunches);
  pool_at_ = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    for (const Binding& binding : steps[i % steps.size()]->bindings) {
      const Buffer& buffer = plan_.buffers[binding.buffer];
      const bool rotates = pool_bytes_ > 0 && buffer.kind == BufferKind::kConstant && IsFloat(buffer.dtype);
      RONDO_ASSIGN_OR_RETURN(const DeviceAddress address,
                             rotates ? NextConstant(buffer) : AddressOf(binding.buffer));
      launches[i].push_back(address + binding.offset);
    }
  }
  RONDO_RETURN_IF_ERROR(device_->BeginRecord(stream_));
  for (const std::vector<DeviceAddress>& addresses : launches) {
    RONDO_RETURN_IF_ERROR(
        device_->Launch(modules_[images], kernel, Span<const DeviceAddress>(addresses), stream_, 0));
  }
  RONDO_ASSIGN_OR_RETURN(Graph * graph, device_->EndRecord(stream_));
  Result<double> time = TimeGraph(graph);
  device_->DestroyGraph(graph);
  return time;
}

}  // namespace rondo::tools
