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

// Changes kSmallKernelsText (kernels_text.h), or a copy of it, into the version for sm_90, whose kernels wait
// for those before them (kernels.cu).
void MakeWait(char* text);

// Stored as PTX (kernels.ptx), which the NVIDIA driver compiles when the first session with small collectives
// is made, for any device from sm_80 on. Thread-safe.
class SmallKernels {
 public:
  explicit SmallKernels(CudaDevice& device) : device_(device) {}
  SmallKernels(const SmallKernels&) = delete;
  SmallKernels& operator=(const SmallKernels&) = delete;

  // Call it before anything is enqueued. Errors are the NVIDIA driver's (kUnsupported and others), and are
  // repeated each time.
  Status Load() { return Load(kPlain); }
  // Call it before an all-reduce of `element` by `ranks` is fused with a norm.
  Status LoadNorm(small::Element element, uint32_t ranks) { return Load(kNorms + NormOf(element, ranks)); }
  // Unloads the kernels, none of which may be running.
  void Unload();

  // Threads of a block.
  static constexpr uint32_t kThreads = 256;
  // Enqueues (or records) a collective of `blocks` blocks, with the device's context current. `after_kernel`:
  // it may begin before the kernel ahead of it, the last one on the stream, ends. `norm`: null, or the norm
  // that a one-shot all-reduce also does.
  Status Enqueue(SmallKernel kernel, uint32_t blocks, small::Group group, small::Call call,
                 const small::Norm* norm, bool after_kernel, StreamHandle stream);
  // Enqueues a write of `count` packs, the i-th being {seed + i, ~(seed + i)}, to memory that may be another
  // GPU's.
  Status EnqueueProbe(Address to, uint64_t seed, uint32_t count, StreamHandle stream);
  // Enqueues (or records) a write of 1 to page-locked memory, with the device's context current.
  Status EnqueueNote(uint32_t* to, StreamHandle stream);

 private:
  // Units of compilation: everything but norms, and each norm, as in kernels_text.h.
  static constexpr size_t kPlain = 0, kNorms = 1, kTexts = kNorms + kSmallNorms;
  static constexpr size_t kKernels = 6;  // of kPlain: the probe's, one for each SmallKernel, the note's
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
  // Whether the kernels wait for those before them.
  bool CanWait() const;

  CudaDevice& device_;
  std::mutex mutex_;  // guards the rest; functions do not change once loaded
  Text texts_[kTexts];
  Function functions_[kKernels] = {}, norms_[kSmallNorms] = {};
};

}  // namespace rondo::cuda
