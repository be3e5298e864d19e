// SmallGroup: what the small collectives of one communicator of one session need: an inbox for each rank, in
// its GPU's memory, that the others write to. Internal to drivers/cuda.
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
  // Of ranks on `devices` (several may be one GPU), which can write to each other (PeerTable), of which one
  // sends another at most `packs` in a collective. A rank waits for another at most for `limit_ns`.
  static Result<SmallGroup*> Create(Span<CudaDevice* const> devices, uint64_t packs, uint64_t limit_ns);
  // From now on, all-reduces of `dtype` may go on with norms.
  Status LoadNorm(DType dtype);
  // Nothing may be in flight.
  ~SmallGroup();
  SmallGroup(const SmallGroup&) = delete;
  SmallGroup& operator=(const SmallGroup&) = delete;

  // `after_kernel` as SmallKernels has it. `norm`: null, or what a one-shot all-reduce goes on with.
  // Enqueues (or records) `rank`'s part on `stream`. Collectives of a rank must be in order. One that does
  // not end is told in `faults`. Different ranks may be used by different threads at once.
  Status Enqueue(uint32_t rank, SmallKernel kernel, const SyncPoint& point, const small::Call& call,
                 const small::Norm* norm, bool after_kernel, StreamHandle stream);
  // Whether an all-reduce can go on with `norm` (else null): its blocks are resident at once, and have room
  // for what they tell each other.
  bool Takes(const small::Norm& norm, const SyncPoint& point) const;
  // Ends what is in flight within moments; the group is of no use from then on. From any thread.
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
  bool norms_[3] = {};         // by small::Element: their kernels are loaded
  uint32_t* abort_ = nullptr;  // page-locked
};

}  // namespace rondo::cuda
