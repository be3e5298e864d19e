// What a collective moves: the rules that compiler, verifier, checker and drivers share.
//
// SyncPoint::bytes is what one participant holds of the smaller side: all of both, but kAllGather writes, and
// kReduceScatter reads, that times the number of participants. Of a kSend, participant 0 reads it and writes
// nothing, participant 1 the other way round: what its step binds there is not touched. Pure functions.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo {

// The rank of `device`, a participant: its place among them.
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

// How many bytes what a participant reads lies behind what it writes, where a collective works in place: its
// share's place in all. kNeverInPlace: it cannot.
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
