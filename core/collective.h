// The bytes that a collective reads and writes: rules shared by the compiler, the verifier, the checker and
// drivers.
//
// SyncPoint::bytes is what one participant holds of the smaller side. Both sides have this size, except that
// kAllGather writes, and kReduceScatter reads, this times the number of participants. In a kSend, participant
// 0 only reads and participant 1 only writes; the buffer that a step binds to the other side is not touched.
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/plan.h"

namespace rondo {

// Where what goes to a participant, or comes from it, lies in what another one reads, or writes.
enum class CollectiveLayout : uint8_t {
  kOne,    // SyncPoint::bytes, the same for all participants
  kEach,   // so many bytes for each participant, one behind the other
  kParts,  // so many bytes in all, a part of the same size for each participant
};

inline constexpr int8_t kEveryRank = -1;

// One row a kind of collective: what compiler, verifier, checker and drivers know of it they read from here.
struct CollectiveFacts {
  CollectiveOp op;
  CollectiveLayout reads, writes;
  bool adds;        // what participants read is added up
  int8_t from, to;  // the one rank that sends, that receives; or kEveryRank
};
inline constexpr CollectiveFacts kCollectives[] = {
    {CollectiveOp::kAllReduce, CollectiveLayout::kOne, CollectiveLayout::kOne, true, kEveryRank, kEveryRank},
    {CollectiveOp::kAllGather, CollectiveLayout::kOne, CollectiveLayout::kEach, false, kEveryRank,
     kEveryRank},
    {CollectiveOp::kReduceScatter, CollectiveLayout::kEach, CollectiveLayout::kOne, true, kEveryRank,
     kEveryRank},
    {CollectiveOp::kBroadcast, CollectiveLayout::kOne, CollectiveLayout::kOne, false, 0, kEveryRank},
    {CollectiveOp::kSend, CollectiveLayout::kOne, CollectiveLayout::kOne, false, 0, 1},
    {CollectiveOp::kAllToAll, CollectiveLayout::kParts, CollectiveLayout::kParts, false, kEveryRank,
     kEveryRank},
};
constexpr bool AreInOrder() {
  for (size_t i = 0; i < sizeof(kCollectives) / sizeof(kCollectives[0]); ++i) {
    if (kCollectives[i].op != static_cast<CollectiveOp>(i)) return false;
  }
  return sizeof(kCollectives) / sizeof(kCollectives[0]) == static_cast<size_t>(kLastCollectiveOp) + 1;
}
static_assert(AreInOrder());
constexpr const CollectiveFacts& FactsOf(CollectiveOp op) { return kCollectives[static_cast<int>(op)]; }
// What every participant reads has the shape of what it writes.
constexpr bool KeepsShape(CollectiveOp op) { return FactsOf(op).reads == FactsOf(op).writes; }

// The rank of `device`, which must be a participant: its index among them.
constexpr uint32_t RankOf(const SyncPoint& point, uint32_t device) {
  uint32_t rank = 0;
  while (rank < point.participants.size() && point.participants[rank] != device) ++rank;
  return rank;
}

// Whether the participant of rank `rank` sends, and receives.
constexpr bool Sends(CollectiveOp op, uint32_t rank) {
  return FactsOf(op).from == kEveryRank || rank == static_cast<uint32_t>(FactsOf(op).from);
}
constexpr bool Receives(CollectiveOp op, uint32_t rank) {
  return FactsOf(op).to == kEveryRank || rank == static_cast<uint32_t>(FactsOf(op).to);
}

// Bytes that the participant of rank `rank` reads, and writes. What a broadcast binds, all of them bind.
constexpr uint64_t BytesRead(const SyncPoint& point, uint32_t rank) {
  const CollectiveFacts& facts = FactsOf(point.op);
  if (facts.to != kEveryRank && !Sends(point.op, rank)) return 0;
  return facts.reads == CollectiveLayout::kEach ? point.bytes * point.participants.size() : point.bytes;
}
constexpr uint64_t BytesWritten(const SyncPoint& point, uint32_t rank) {
  if (!Receives(point.op, rank)) return 0;
  const bool each = FactsOf(point.op).writes == CollectiveLayout::kEach;
  return each ? point.bytes * point.participants.size() : point.bytes;
}

// For a collective that works in place: how many bytes the memory that the participant reads lies behind the
// memory that it writes. This is the offset of its share. kNeverInPlace: the collective cannot work in place.
inline constexpr int64_t kNeverInPlace = INT64_MIN;
constexpr int64_t InPlaceDistance(const SyncPoint& point, uint32_t rank) {
  const CollectiveFacts& facts = FactsOf(point.op);
  const int64_t share = static_cast<int64_t>(rank * point.bytes);
  if (facts.reads == CollectiveLayout::kParts) return kNeverInPlace;
  return (facts.writes == CollectiveLayout::kEach ? share : 0) -
         (facts.reads == CollectiveLayout::kEach ? share : 0);
}

}  // namespace rondo
