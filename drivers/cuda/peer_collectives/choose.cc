#include "drivers/cuda/peer_collectives/choose.h"

#include <algorithm>

#include "core/collective_time.h"
#include "drivers/cuda/peer_collectives/norm.h"

namespace rondo::cuda {
namespace {

bool CanAdd(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

// Bytes of one rank's inbox: everything that all ranks may send to it, in both slots.
uint64_t InboxBytes(SmallKernel kernel, const SyncPoint& point) {
  return PacksSent(kernel, point) * point.participants.size() * small::kSlots * sizeof(small::Words);
}

// Whether every rank has a part of the sum; this also tells a group that all ranks have begun.
bool TwoShotFits(const SyncPoint& point) {
  const uint64_t packs = small::PacksOf(point.bytes), ranks = point.participants.size();
  return packs > small::PartOf(packs, static_cast<uint32_t>(ranks)) * (ranks - 1);
}

// The fastest kernel for the collective.
SmallKernel BestOf(const SyncPoint& point) {
  switch (point.op) {
    case CollectiveOp::kAllReduce: {
      const double bytes = static_cast<double>(point.bytes),
                   ranks = static_cast<double>(point.participants.size());
      return TwoShotFits(point) && TwoShotIsQuicker(bytes, ranks) ? SmallKernel::kTwoShot
                                                                  : SmallKernel::kOneShot;
    }
    case CollectiveOp::kReduceScatter: return SmallKernel::kReduceScatter;
    case CollectiveOp::kAllGather: return SmallKernel::kAllGather;
    default: return SmallKernel::kNone;
  }
}

// Whether the small kernel is faster than NCCL, by measurement or else by estimate.
bool IsQuicker(const SyncPoint& point, uint32_t sharing, Span<const SmallUpTo> measured) {
  for (const SmallUpTo& row : measured) {
    if (sharing == 1 && row.op == point.op && row.ranks == point.participants.size())
      return point.bytes <= row.bytes;
  }
  const bool shared = sharing > 1;
  const Span<const AllReduceTime> small = shared ? Span<const AllReduceTime>(kSmallSharedTimes) : kSmallTimes,
                                  nccl = shared ? Span<const AllReduceTime>(kNcclSharedTimes) : kNcclTimes;
  const double ranks = static_cast<double>(point.participants.size());
  // The other ops move half of what an all-reduce of the whole moves.
  const double size =
      static_cast<double>(point.bytes) * (point.op == CollectiveOp::kAllReduce ? 1 : ranks / 2);
  if (size > small[small.size() - 1].bytes) return false;
  // A group on several GPUs with several ranks on each costs about as much as that many ranks on one GPU.
  const double like = sharing > 1 ? std::max(static_cast<double>(sharing), std::min(ranks, 4.0)) : ranks;
  return AllReduceMicroseconds(small, size, like) < AllReduceMicroseconds(nccl, size, like);
}

}  // namespace

uint64_t PacksSent(SmallKernel kernel, const SyncPoint& point) {
  const uint64_t packs = small::PacksOf(point.bytes);
  const auto ranks = static_cast<uint32_t>(point.participants.size());
  return kernel == SmallKernel::kTwoShot ? 2 * small::PartOf(packs, ranks) : packs;
}

uint64_t PacksOfInbox(SmallKernel kernel, const SyncPoint& point) {
  constexpr uint64_t kMostNotes = 64 * 2 * small::kRowBlock;
  const uint64_t packs = PacksSent(kernel, point);
  if (kernel != SmallKernel::kOneShot) return packs;
  return std::max(packs, std::min(2 * packs, kMostNotes));
}

uint64_t PacksShared(SmallKernel kernel, const SyncPoint& point) {
  const uint64_t packs = PacksSent(kernel, point);
  return kernel == SmallKernel::kTwoShot ? packs / 2 : packs;
}

bool CanBeSmall(const SyncPoint& point) {
  if (point.participants.size() < 2 || point.participants.size() > small::kMostRanks) return false;
  if (point.op != CollectiveOp::kAllGather && !CanAdd(point.dtype)) return false;
  if (point.bytes == 0 || point.bytes > kMostInbox) return false;
  const SmallKernel kernel = BestOf(point);
  return kernel != SmallKernel::kNone && InboxBytes(kernel, point) <= kMostInbox;
}

SmallKernel ChooseSmall(CollectiveKernels kernels, const SyncPoint& point, uint32_t sharing,
                        Span<const SmallUpTo> measured) {
  if (kernels == CollectiveKernels::kNccl || !CanBeSmall(point)) return SmallKernel::kNone;
  const SmallKernel kernel = BestOf(point);
  const bool small = kernels != CollectiveKernels::kAuto || IsQuicker(point, sharing, measured);
  return small ? kernel : SmallKernel::kNone;
}

bool MayNorm(CollectiveKernels kernels, SmallKernel kernel) {
  return kernels != CollectiveKernels::kNccl && kernel == SmallKernel::kOneShot;
}

}  // namespace rondo::cuda
