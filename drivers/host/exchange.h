// Computes a collective on its ranks' memory, once all ranks have come.
#pragma once

#include <cstdint>

#include "core/driver.h"
#include "core/plan.h"
#include "drivers/host/engine.h"
#include "drivers/host/thread_pool.h"

namespace rondo::host {

// The memory that one rank reads and writes.
struct RankMemory {
  DeviceAddress from = 0;
  DeviceAddress to = 0;
};

// Carries out `point` on ranks[0 ... point.participants.size()). Sums are formed once for all ranks, in rank
// order, so every rank gets the same bits: f16 and bf16 are summed in f32 and rounded once, integers wrap,
// and bools are OR-ed. SyncPoint::bytes is one rank's share: an all-gather reads it, a reduce-scatter writes
// it, the others read and write it (core/collective.h). A rank whose `to` is 0 gets no sum. In place means
// from == to; for an all-gather from == to + rank * bytes; for a reduce-scatter to == from + rank * bytes; an
// all-to-all is never in place.
void Exchange(const SyncPoint& point, const RankMemory* ranks, const Engine& engine, ThreadPool& pool);

}  // namespace rondo::host
