// ChooseSmall: decides which collectives are small kernels, and which NCCL's. Pure functions.
#pragma once

#include "core/plan.h"
#include "drivers/cuda/cuda_driver.h"

namespace rondo::cuda {

enum class SmallKernel : uint8_t { kNone, kOneShot, kTwoShot, kReduceScatter, kAllGather };

// The limit of a rank's inbox for one collective in bytes, whatever the options request.
inline constexpr uint64_t kMostInbox = uint64_t{64} << 20;

// Whether small kernels support it at all: an all-reduce or reduce-scatter of 16- or 32-bit floats or an
// all-gather, of 2 to 8 ranks, in an inbox of kMostInbox.
bool CanBeSmall(const SyncPoint& point);

// kNone: NCCL. Follows `kernels`. With kAuto it takes the faster one: by core/collective_time.h, where at
// most `sharing` ranks are on one GPU; or, if `sharing` is 1, by what `measured` says for this op and number
// of ranks.
SmallKernel ChooseSmall(CollectiveKernels kernels, const SyncPoint& point, uint32_t sharing,
                        Span<const SmallUpTo> measured = {});

// Whether such a collective may be fused with a norm.
bool MayNorm(CollectiveKernels kernels, SmallKernel kernel);

// Packs (drivers/cuda/peer_collectives/exchange_layout.h) that a rank sends to one other.
uint64_t PacksSent(SmallKernel kernel, const SyncPoint& point);
// Packs that the inbox should hold: those, and the notes of blocks that share rows (peer_collectives/norm.h).
uint64_t PacksOfInbox(SmallKernel kernel, const SyncPoint& point);
// Packs to be divided among the kernel's threads.
uint64_t PacksShared(SmallKernel kernel, const SyncPoint& point);

}  // namespace rondo::cuda
