#include "drivers/cuda/weight_copy.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "drivers/cuda/cuda_constants.h"
#include "drivers/cuda/cuda_device.h"

namespace rondo::cuda {

Result<WeightCopy*> WeightCopy::Create(CudaDevice& device, const ThreadHooks& hooks) {
  std::unique_ptr<WeightCopy> made(new (std::nothrow) WeightCopy(device, hooks));
  if (made == nullptr) return Status::Error(Code::kOutOfMemory, "no host memory for copying weights");
  RONDO_RETURN_IF_ERROR(made->Prepare());
  return made.release();
}

Status WeightCopy::Prepare() {
  threads_ = std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
  const uint64_t bytes = threads_ * 2 * kChunk;
  const Api& api = device_.api();
  CudaDevice::Use use(device_);
  RONDO_RETURN_IF_ERROR(device_.Check(api.host_allocate(&memory_, bytes, kPortable), "page-locked memory")
                            .At("%llu bytes for copying weights", static_cast<unsigned long long>(bytes)));
  for (uint32_t i = 0; i < threads_; ++i) {
    workers_[i].owner = this;
    for (uint32_t b = 0; b < 2; ++b) {
      workers_[i].buffers[b] = static_cast<uint8_t*>(memory_) + (2 * i + b) * kChunk;
      RONDO_RETURN_IF_ERROR(
          device_.Check(api.event_create(&workers_[i].sent[b], kNoTiming), "creating an event"));
    }
  }
  return Status::Ok();
}

WeightCopy::~WeightCopy() {
  CudaDevice::Use use(device_);
  for (Worker& worker : workers_) {
    for (EventHandle event : worker.sent) {
      if (event == nullptr) continue;
      device_.api().event_synchronize(event);
      device_.api().event_destroy(event);
    }
  }
  if (memory_ != nullptr) device_.api().host_release(memory_);
}

Status WeightCopy::Send(Worker* worker, uint64_t chunk, int buffer) {
  const Api& api = device_.api();
  const uint64_t first = chunk * kChunk, bytes = std::min(kChunk, job_.bytes - first);
  const EventHandle sent = worker->sent[buffer];
  RONDO_RETURN_IF_ERROR(device_.Check(api.event_synchronize(sent), "copying to the device"));
  std::memcpy(worker->buffers[buffer], job_.from + first, bytes);
  RONDO_RETURN_IF_ERROR(device_.Check(
      api.copy_in(job_.to + first, worker->buffers[buffer], bytes, job_.stream), "copying to the device"));
  return device_.Check(api.event_record(sent, job_.stream, 0), "recording an event");
}

void WeightCopy::Work(Worker* worker) {
  CudaDevice::Use use(device_);
  worker->status = Status::Ok();
  for (int buffer = 0; !failed_.load(std::memory_order_relaxed); buffer ^= 1) {
    const uint64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
    if (chunk * kChunk >= job_.bytes) return;
    worker->status = Send(worker, chunk, buffer);
    if (worker->status.ok()) continue;
    failed_.store(true, std::memory_order_relaxed);
    return;
  }
}

Status WeightCopy::Copy(Address to, const void* from, uint64_t bytes, StreamHandle stream) {
  job_ = {to, static_cast<const uint8_t*>(from), bytes, stream};
  next_.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  size_t started = 1;
  auto entry = [](void* argument) -> void* {
    auto* worker = static_cast<Worker*>(argument);
    worker->owner->Work(worker);
    return nullptr;
  };
  // If a thread cannot be started, the others do its share.
  while (started < threads_ && started * kChunk < bytes &&
         hooks_.start(hooks_.user, entry, &workers_[started], &workers_[started].thread) == 0) {
    ++started;
  }
  Work(&workers_[0]);
  Status first = workers_[0].status;
  for (size_t i = 1; i < started; ++i) {
    hooks_.join(hooks_.user, workers_[i].thread);
    if (first.ok()) first = workers_[i].status;
  }
  return first;
}

}  // namespace rondo::cuda
