#include "drivers/cuda/small/choose.h"

#include <iterator>

#include "core/collective_time.h"
#include "drivers/cuda/small/exchange.h"

namespace rondo::cuda {
namespace {

bool CanAdd(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

// Of one rank: what all may send to it, in both slots.
uint64_t InboxBytes(SmallKernel kernel, const SyncPoint& point) {
  return PacksSent(kernel, point) * point.participants.size() * small::kSlots * sizeof(small::Words);
}

// Every rank has a part of what is added: a group learns so that all have begun.
bool TwoShotFits(const SyncPoint& point) {
  const uint64_t packs = small::PacksOf(point.bytes), ranks = point.participants.size();
  return packs > small::PartOf(packs, static_cast<uint32_t>(ranks)) * (ranks - 1);
}

// The quickest of them.
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

// Than NCCL as measured, or else by estimate; among ranks of one GPU at any size that the estimate knows.
bool IsQuicker(const SyncPoint& point, bool shared, Span<const SmallUpTo> measured) {
  for (const SmallUpTo& row : measured) {
    if (!shared && row.op == point.op && row.ranks == point.participants.size())
      return point.bytes <= row.bytes;
  }
  const double ranks = static_cast<double>(point.participants.size());
  // Others move half of what an all-reduce of the whole does.
  const double size =
      static_cast<double>(point.bytes) * (point.op == CollectiveOp::kAllReduce ? 1 : ranks / 2);
  if (size > std::end(kSmallTimes)[-1].bytes) return false;
  return shared ||
         AllReduceMicroseconds(kSmallTimes, size, ranks) < AllReduceMicroseconds(kNcclTimes, size, ranks);
}

}  // namespace

uint64_t PacksSent(SmallKernel kernel, const SyncPoint& point) {
  const uint64_t packs = small::PacksOf(point.bytes);
  const auto ranks = static_cast<uint32_t>(point.participants.size());
  return kernel == SmallKernel::kTwoShot ? 2 * small::PartOf(packs, ranks) : packs;
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

SmallKernel ChooseSmall(CollectiveKernels kernels, const SyncPoint& point, bool shared,
                        Span<const SmallUpTo> measured) {
  if (kernels == CollectiveKernels::kNccl || !CanBeSmall(point)) return SmallKernel::kNone;
  const SmallKernel kernel = BestOf(point);
  const bool small = kernels == CollectiveKernels::kSmall || IsQuicker(point, shared, measured);
  return small ? kernel : SmallKernel::kNone;
}

}  // namespace rondo::cuda
