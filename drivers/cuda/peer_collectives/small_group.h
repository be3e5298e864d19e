// SmallGroup: the resources for small collectives of one communicator of one session: for each rank an inbox
// in its GPU's memory, to which the others write. Internal to drivers/cuda.
#pragma once

#include "core/driver.h"
#include "core/span.h"
#include "core/status.h"
#include "drivers/cuda/cuda_api.h"
#include "drivers/cuda/peer_collectives/choose.h"
#include "drivers/cuda/peer_collectives/exchange_layout.h"

namespace rondo::cuda {

class CudaDevice;

class SmallGroup {
 public:
  // For ranks on `devices` (several may be one GPU) that can write to each other (PeerTable). A rank sends at
  // most `packs` to another in a collective, and waits at most `limit_ns` for another.
  static Result<SmallGroup*> Create(Span<CudaDevice* const> devices, uint64_t packs, uint64_t limit_ns);
  // From now on, all-reduces of `dtype` may be fused with norms.
  Status LoadNorm(DType dtype);
  // Nothing may be in flight.
  ~SmallGroup();
  SmallGroup(const SmallGroup&) = delete;
  SmallGroup& operator=(const SmallGroup&) = delete;

  // Enqueues (or records) `rank`'s part on `stream`. `after_kernel`: as for SmallKernels. `norm`: null, or
  // the norm that a one-shot all-reduce also does. Collectives of a rank must come in order. One that does
  // not end is reported in `faults`. Different ranks may be used by different threads at once.
  Status Enqueue(uint32_t rank, SmallKernel kernel, const SyncPoint& point, const small::Call& call,
                 const small::Norm* norm, bool after_kernel, StreamHandle stream);
  // Whether an all-reduce can be fused with `norm` (otherwise Enqueue must get null): its blocks are resident
  // at once, and the inbox has room for their notes.
  bool Takes(const small::Norm& norm, const SyncPoint& point) const;
  // Ends everything in flight within moments; the group is unusable from then on. From any thread.
  void Abort();

 private:
  struct Rank {
    CudaDevice* device = nullptr;
    DeviceAddress memory = 0;  // its inbox, then its State
    small::Group group = {};
  };
  SmallGroup() = default;
  Status MakeRank(Rank* rank, uint64_t inbox_bytes);

  Rank ranks_[small::kMostRanks];
  uint32_t num_ranks_ = 0;
  uint64_t rank_bytes_ = 0;
  uint32_t most_blocks_ = 1;
  bool norms_[3] = {};         // by small::Element: whether their kernels are loaded
  uint32_t* abort_ = nullptr;  // page-locked
};

}  // namespace rondo::cuda
