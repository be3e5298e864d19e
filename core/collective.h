// What a collective moves: the rules that compiler, verifier, checker and drivers share.
//
// SyncPoint::bytes is what one participant holds of the smaller side: all of both, but kAllGather writes, and
// kReduceScatter reads, that times the number of participants. Pure functions.
#ifndef RONDO_CORE_COLLECTIVE_H_
#define RONDO_CORE_COLLECTIVE_H_

#include <cstdint>

#include "core/plan.h"

namespace rondo {

// Bytes that each participant reads, and writes.
constexpr uint64_t BytesRead(const SyncPoint& point) {
  return point.op == CollectiveOp::kReduceScatter ? point.bytes * point.participants.size() : point.bytes;
}
constexpr uint64_t BytesWritten(const SyncPoint& point) {
  return point.op == CollectiveOp::kAllGather ? point.bytes * point.participants.size() : point.bytes;
}

// How many bytes what a participant reads lies behind what it writes, where a collective works in place: its
// share's place in all. `device` is a participant.
constexpr int64_t InPlaceDistance(const SyncPoint& point, uint32_t device) {
  size_t rank = 0;
  while (rank < point.participants.size() && point.participants[rank] != device) ++rank;
  const int64_t share = static_cast<int64_t>(rank * point.bytes);
  return point.op == CollectiveOp::kAllGather ? share : point.op == CollectiveOp::kReduceScatter ? -share : 0;
}

}  // namespace rondo

#endif  // RONDO_CORE_COLLECTIVE_H_
