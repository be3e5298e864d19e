// The bytes that a collective reads and writes: rules shared by the compiler, the verifier, the checker and
// drivers.
//
// SyncPoint::bytes is what one participant holds of the smaller side. Both sides have this size, except that
// kAllGather writes, and kReduceScatter reads, this times the number of participants. In a kSend, participant
// 0 only reads and participant 1 only writes; the buffer that a step binds to the other side is not touched.
// Pure functions.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo {

// The rank of `device`, which must be a participant: its index among them.
constexpr uint32_t RankOf(const SyncPoint& point, uint32_t device) {
  uint32_t rank = 0;
  while (rank < point.participants.size() && point.participants[rank] != device) ++rank;
  return rank;
}

// Bytes that the participant of rank `rank` reads, and writes.
constexpr uint64_t BytesRead(const SyncPoint& point, uint32_t rank) {
  if (point.op == CollectiveOp::kSend && rank != 0) return 0;
  return point.op == CollectiveOp::kReduceScatter ? point.bytes * point.participants.size() : point.bytes;
}
constexpr uint64_t BytesWritten(const SyncPoint& point, uint32_t rank) {
  if (point.op == CollectiveOp::kSend && rank == 0) return 0;
  return point.op == CollectiveOp::kAllGather ? point.bytes * point.participants.size() : point.bytes;
}

// For a collective that works in place: how many bytes the memory that the participant reads lies behind the
// memory that it writes. This is the offset of its share. kNeverInPlace: the collective cannot work in place.
inline constexpr int64_t kNeverInPlace = INT64_MIN;
constexpr int64_t InPlaceDistance(const SyncPoint& point, uint32_t rank) {
  const int64_t share = static_cast<int64_t>(rank * point.bytes);
  switch (point.op) {
    case CollectiveOp::kAllGather: return share;
    case CollectiveOp::kReduceScatter: return -share;
    case CollectiveOp::kAllToAll: return kNeverInPlace;
    default: return 0;
  }
}

}  // namespace rondo
