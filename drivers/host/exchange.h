// What a collective does with the bytes of its ranks, once all of them have come.
#pragma once

#include <cstdint>

#include "core/driver.h"
#include "core/plan.h"
#include "drivers/host/engine.h"
#include "drivers/host/thread_pool.h"

namespace rondo::host {

// Where one rank reads and writes.
struct RankMemory {
  DeviceAddress from = 0;
  DeviceAddress to = 0;
};

// Carries out `point` on ranks[0 ... point.participants.size()). Sums are formed in the order of the ranks,
// once for all of them, so that every rank gets the same bits: f16 and bf16 are summed in f32 and rounded
// once, integers wrap, a bool is whether any is set. `bytes` is one rank's share: what an all-gather reads, a
// reduce-scatter writes, the others read and write (core/collective.h). A rank whose `to` is 0 gets no sum.
// In place: from == to, for an all-gather from == to + rank * bytes, for a reduce-scatter to == from + rank *
// bytes, an all-to-all never.
void Exchange(const SyncPoint& point, const RankMemory* ranks, const Engine& engine, ThreadPool& pool);

}  // namespace rondo::host
