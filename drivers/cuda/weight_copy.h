// WeightCopy: copies pageable memory (a mapped file) to a GPU at the speed of the bus. Internal to
// drivers/cuda.
#pragma once

#include <atomic>
#include <cstddef>

#include "core/status.h"
#include "core/threads.h"
#include "drivers/cuda/cuda_api.h"

namespace rondo::cuda {

class CudaDevice;

// Several threads, each with two page-locked buffers: one is on the bus while the other is filled. A single
// thread copies from the page cache at a fraction of the bus rate, and a copy from pageable memory, which
// goes through the NVIDIA driver's own buffers, is no faster. Used by one thread at a time.
class WeightCopy {
 public:
  // Smaller copies do not pay for the threads.
  static constexpr uint64_t kLeastBytes = 4 << 20;

  static Result<WeightCopy*> Create(CudaDevice& device, const ThreadHooks& hooks);
  // Waits until its buffers have been read.
  ~WeightCopy();
  WeightCopy(const WeightCopy&) = delete;
  WeightCopy& operator=(const WeightCopy&) = delete;

  // Returns when `from` has been read; the copy is complete in the order of `stream`.
  Status Copy(Address to, const void* from, uint64_t bytes, StreamHandle stream);
  // The stream of the last copy; null before the first.
  StreamHandle stream() const { return job_.stream; }

 private:
  static constexpr uint64_t kChunk = 2 << 20;
  static constexpr uint32_t kMostThreads = 8;
  struct Worker {
    WeightCopy* owner = nullptr;
    uint8_t* buffers[2] = {};
    EventHandle sent[2] = {};
    Status status;
    void* thread = nullptr;
  };
  struct Job {
    Address to = 0;
    const uint8_t* from = nullptr;
    uint64_t bytes = 0;
    StreamHandle stream = nullptr;
  };
  WeightCopy(CudaDevice& device, const ThreadHooks& hooks) : device_(device), hooks_(hooks) {}
  Status Prepare();
  Status Send(Worker* worker, uint64_t chunk, int buffer);
  void Work(Worker* worker);

  CudaDevice& device_;
  const ThreadHooks hooks_;
  void* memory_ = nullptr;
  Worker workers_[kMostThreads];  // [0] is the caller
  uint32_t threads_ = 1;
  Job job_;
  std::atomic<uint64_t> next_{0};  // chunk of the job
  std::atomic<bool> failed_{false};
};

}  // namespace rondo::cuda
