// SmallKernels: the kernels of small collectives on one GPU. Internal to drivers/cuda.
#ifndef RONDO_DRIVERS_CUDA_SMALL_SMALL_KERNELS_H_
#define RONDO_DRIVERS_CUDA_SMALL_SMALL_KERNELS_H_

#include <mutex>

#include "core/status.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/small/choose.h"
#include "drivers/cuda/small/exchange_layout.h"

namespace rondo::cuda {

class CudaDevice;

// Kept here as PTX (kernels.ptx), which the NVIDIA driver compiles for the device when the first session that
// has small collectives is made: any device from sm_80 on. Thread-safe.
class SmallKernels {
 public:
  explicit SmallKernels(CudaDevice& device) : device_(device) {}
  SmallKernels(const SmallKernels&) = delete;
  SmallKernels& operator=(const SmallKernels&) = delete;

  // Before anything is enqueued. kUnsupported and others: the NVIDIA driver's own, said again each time.
  Status Load();
  // Unloads them; none may be running any more.
  void Unload();

  // Threads of a block.
  static constexpr uint32_t kThreads = 256;
  // Enqueues (or records) a collective of `blocks` blocks, with the device's context current. `after_kernel`:
  // it may begin before the kernel ahead of it on the stream, the last there, ends.
  Status Enqueue(SmallKernel kernel, uint32_t blocks, small::Group group, small::Call call, bool after_kernel,
                 StreamHandle stream);
  // Enqueues the writing of `count` packs, the i-th {seed + i, ~(seed + i)}, to memory that may be another
  // GPU's.
  Status EnqueueProbe(Address to, uint64_t seed, uint32_t count, StreamHandle stream);
  // Enqueues (or records) that 1 is written to page-locked memory, with the device's context current.
  Status EnqueueNote(uint32_t* to, StreamHandle stream);

 private:
  static constexpr size_t kKernels = 6;  // the probe's, one a SmallKernel, the note's
  Status LoadFunctions();
  // Whether its kernels wait for those before them.
  bool CanWait() const;

  CudaDevice& device_;
  std::mutex mutex_;  // guards the rest; functions_ does not change once loaded
  ModuleHandle module_ = nullptr;
  Function functions_[kKernels] = {};
  bool tried_ = false;
  Status failed_;
};

}  // namespace rondo::cuda

#endif  // RONDO_DRIVERS_CUDA_SMALL_SMALL_KERNELS_H_
