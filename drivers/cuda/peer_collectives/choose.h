// ChooseSmall: which collectives are small kernels, and which NCCL's. Pure functions.
#pragma once

#include "core/plan.h"
#include "drivers/cuda/cuda_driver.h"

namespace rondo::cuda {

enum class SmallKernel : uint8_t { kNone, kOneShot, kTwoShot, kReduceScatter, kAllGather };

// The most that one of them takes of a rank's inbox in bytes, whatever is asked for.
inline constexpr uint64_t kMostInbox = uint64_t{64} << 20;

// Whether small kernels can do it at all: an all-reduce or reduce-scatter of 16- or 32-bit floats or an
// all-gather, of 2 to 8 ranks, in an inbox of kMostInbox.
bool CanBeSmall(const SyncPoint& point);

// kNone: NCCL does it. By what `kernels` asks for; kAuto: what takes less time (core/collective_time.h) where
// at most `sharing` of the ranks are on one GPU, or, if that is 1, as `measured` says of the op and as many
// ranks.
SmallKernel ChooseSmall(CollectiveKernels kernels, const SyncPoint& point, uint32_t sharing,
                        Span<const SmallUpTo> measured = {});

// Whether such a collective may go on with a norm.
bool MayNorm(CollectiveKernels kernels, SmallKernel kernel);

// Packs (drivers/cuda/peer_collectives/exchange_layout.h) that a rank sends to another.
uint64_t PacksSent(SmallKernel kernel, const SyncPoint& point);
// Packs that there should be room for: those, and the notes of blocks that share rows
// (peer_collectives/norm.h).
uint64_t PacksOfInbox(SmallKernel kernel, const SyncPoint& point);
// Packs that its threads share out among them.
uint64_t PacksShared(SmallKernel kernel, const SyncPoint& point);

}  // namespace rondo::cuda
