// CudaCalls: the custom ops of one plan on one GPU. Internal to drivers/cuda.
#pragma once

#include <mutex>

#include "core/arena.h"
#include "core/driver.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/ops/calls.h"

namespace rondo::cuda {

class CudaDevice;
struct CudaStream;

// An op that has `enqueue` puts its work on the call's stream, which may be recording. Any other op is a host
// function: a call waits for its stream, copies the op's inputs to page-locked memory, runs it there, and
// enqueues copies of its outputs back. That memory is one block, allocated in Create for the largest call;
// sessions that share it take turns. Any number of threads may call Run, each with a stream of its own.
class CudaCalls {
 public:
  // `ops` may be null; it and `plan` must outlive the result. Errors name the op and its node, or are
  // kOutOfMemory.
  static Result<CudaCalls*> Create(CudaDevice& device, const PlanData& plan, const OpRegistry* ops);
  // No copies of a call may be under way.
  ~CudaCalls();
  CudaCalls(const CudaCalls&) = delete;
  CudaCalls& operator=(const CudaCalls&) = delete;

  // Calls op `op` over device memory. After a fault in the stream's earlier work, or when an op rejects its
  // data, the stream's calls are skipped until Synchronize has returned the error. Allocates nothing unless
  // the op fails.
  Status Run(uint32_t op, Span<const DeviceAddress> addresses, CudaStream* stream, uint32_t step);

 private:
  // An argument's place in the block while its op runs.
  struct Staged {
    uint64_t offset = 0;  // in the block
    uint64_t bytes = 0;   // 0: nothing is copied
    bool absent = false;
    bool in = false, out = false;  // copied before and after the op
  };
  explicit CudaCalls(CudaDevice& device) : device_(device) {}
  Status Prepare(const PlanData& plan, const OpRegistry* ops);
  Status AllocateBlock(uint64_t bytes);
  Status RunOnHost(uint32_t op, Span<const DeviceAddress> addresses, CudaStream* stream, uint32_t step);
  uint64_t StageCall(const CustomOp& call, Span<Staged> arguments) const;
  Status CopyArguments(uint32_t op, Span<const DeviceAddress> addresses, CudaStream* stream, bool back);

  CudaDevice& device_;
  Arena arena_;
  CallTable calls_;
  Span<Span<Staged>> staged_;  // by op and argument
  std::mutex mutex_;           // guards the block
  uint8_t* block_ = nullptr;
  EventHandle copied_ = nullptr;  // the last call's outputs have left the block
};

}  // namespace rondo::cuda
