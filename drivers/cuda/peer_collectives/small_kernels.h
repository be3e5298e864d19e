// SmallKernels: the kernels of small collectives on one GPU. Internal to drivers/cuda.
#pragma once

#include <mutex>

#include "core/status.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/peer_collectives/choose.h"
#include "drivers/cuda/peer_collectives/exchange_layout.h"
#include "drivers/cuda/peer_collectives/kernels_text.h"

namespace rondo::cuda {

class CudaDevice;

// Makes kSmallKernelsText (kernels_text.h), or a copy of it, one for sm_90, whose kernels wait for those
// before them (kernels.cu).
void MakeWait(char* text);

// Kept here as PTX (kernels.ptx), which the NVIDIA driver compiles for the device when the first session that
// has small collectives is made: any device from sm_80 on. Thread-safe.
class SmallKernels {
 public:
  explicit SmallKernels(CudaDevice& device) : device_(device) {}
  SmallKernels(const SmallKernels&) = delete;
  SmallKernels& operator=(const SmallKernels&) = delete;

  // Before anything is enqueued. kUnsupported and others: the NVIDIA driver's own, said again each time.
  Status Load() { return Load(kPlain); }
  // Before an all-reduce of `element` by `ranks` goes on with a norm.
  Status LoadNorm(small::Element element, uint32_t ranks) { return Load(kNorms + NormOf(element, ranks)); }
  // Unloads them; none may be running any more.
  void Unload();

  // Threads of a block.
  static constexpr uint32_t kThreads = 256;
  // Enqueues (or records) a collective of `blocks` blocks, with the device's context current. `after_kernel`:
  // it may begin before the kernel ahead of it on the stream, the last there, ends.
  // `norm`: null, or what an all-reduce, by one shot, goes on with.
  Status Enqueue(SmallKernel kernel, uint32_t blocks, small::Group group, small::Call call,
                 const small::Norm* norm, bool after_kernel, StreamHandle stream);
  // Enqueues the writing of `count` packs, the i-th {seed + i, ~(seed + i)}, to memory that may be another
  // GPU's.
  Status EnqueueProbe(Address to, uint64_t seed, uint32_t count, StreamHandle stream);
  // Enqueues (or records) that 1 is written to page-locked memory, with the device's context current.
  Status EnqueueNote(uint32_t* to, StreamHandle stream);

 private:
  // What is compiled together: all but norms; each norm, as kernels_text.h has them.
  static constexpr size_t kPlain = 0, kNorms = 1, kTexts = kNorms + kSmallNorms;
  static constexpr size_t kKernels = 6;  // of kPlain: the probe's, one a SmallKernel, the note's
  struct Text {
    bool tried = false;
    Status failed;
    ModuleHandle module = nullptr;
  };
  static constexpr size_t NormOf(uint32_t element, uint32_t ranks) {
    return 3 * element + (ranks <= 2 ? 0 : ranks <= 4 ? 1 : 2);
  }
  Status Load(size_t which);
  Status LoadText(size_t which, ModuleHandle* module);
  // Whether its kernels wait for those before them.
  bool CanWait() const;

  CudaDevice& device_;
  std::mutex mutex_;  // guards the rest; functions do not change once loaded
  Text texts_[kTexts];
  Function functions_[kKernels] = {}, norms_[kSmallNorms] = {};
};

}  // namespace rondo::cuda
