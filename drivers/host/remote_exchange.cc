#include "drivers/host/remote_exchange.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>

#include "core/collective.h"

namespace rondo::host {
namespace {

// In all-reduces of at most so many bytes, every process sums everything.
constexpr uint64_t kWholeAllReduce = 16 << 10;

struct Bytes {
  char* at = nullptr;
  uint64_t size = 0;
};

char* At(DeviceAddress address) { return reinterpret_cast<char*>(address); }

// The bytes of `bytes` whose elements rank `rank` of `ranks` sums.
struct Part {
  uint64_t first, size;
};
Part PartOf(const SyncPoint& point, uint32_t rank) {
  const auto size = static_cast<uint64_t>(ByteSize(point.dtype)), ranks = uint64_t{point.participants.size()};
  const uint64_t elements = point.bytes / size;
  const uint64_t first = elements * rank / ranks * size;
  return {first, elements * (rank + 1) / ranks * size - first};
}

// The text of a Purpose of these collectives.
void Describe(const uint64_t* words, char* text, size_t size) {
  const auto op = static_cast<CollectiveOp>(words[2] >> 32 & 0xff);
  const auto dtype = static_cast<uint32_t>(words[2] >> 40 & 0xff);
  const bool known = op <= kLastCollectiveOp && dtype < kNumDTypes;
  std::snprintf(text, size,
                "sync point %u (%s of %" PRIu64 " bytes of %s, phase %" PRIu64 " of run %" PRIu64
                " of program %" PRIu64 ")",
                static_cast<uint32_t>(words[2]), known ? Name(op) : "an unknown op", words[3],
                known ? Name(static_cast<DType>(dtype)) : "an unknown type", words[4], words[1], words[0]);
}

// The part of `memory` for, or from, rank `other`.
Bytes Laid(CollectiveLayout layout, const SyncPoint& point, DeviceAddress memory, uint32_t other) {
  const uint64_t part = point.bytes / point.participants.size();
  switch (layout) {
    case CollectiveLayout::kOne: break;
    case CollectiveLayout::kEach: return {At(memory) + other * point.bytes, point.bytes};
    case CollectiveLayout::kParts: return {At(memory) + other * part, part};
  }
  return {At(memory), point.bytes};
}

// The data that rank `rank` sends to rank `to`, or to itself.
Bytes Outgoing(const SyncPoint& point, uint32_t rank, uint32_t to, const RankMemory& memory) {
  if (!Sends(point.op, rank) || !Receives(point.op, to)) return {};
  return Laid(FactsOf(point.op).reads, point, memory.from, to);
}

// Where rank `rank` puts data from rank `from`, for ops without sums.
Bytes Incoming(const SyncPoint& point, uint32_t rank, uint32_t from, const RankMemory& memory) {
  if (FactsOf(point.op).adds || !Sends(point.op, from) || !Receives(point.op, rank)) return {};
  return Laid(FactsOf(point.op).writes, point, memory.to, from);
}

// FNV-1a.
uint64_t Digest(Span<const uint32_t> numbers) {
  uint64_t digest = 0xcbf29ce484222325ull;
  for (uint32_t number : numbers) digest = (digest ^ number) * 0x100000001b3ull;
  return digest;
}

}  // namespace

RemoteExchange* RemoteExchange::Create(const rondo::Program& program, uint64_t number, Processes& processes,
                                       const Engine& engine, ThreadPool& pool) {
  auto* made = new (std::nothrow) RemoteExchange(number, processes, engine, pool);
  if (made == nullptr || made->Allocate(program)) return made;
  delete made;
  return nullptr;
}

bool RemoteExchange::Allocate(const rondo::Program& program) {
  uint64_t most = 1;
  for (const SyncPoint& point : program.sync_points) {
    const uint64_t ranks = point.participants.size();
    uint64_t bytes = 0;
    const CollectiveFacts& facts = FactsOf(point.op);
    if (facts.adds) {
      const bool parts = KeepsShape(point.op) && point.bytes > kWholeAllReduce;
      bytes = ranks * (parts ? point.bytes / ranks + 8 : point.bytes);
    }
    if (bytes > most) most = bytes;
  }
  scratch_.reset(new (std::nothrow) char[most]);
  return scratch_ != nullptr;
}

template <typename S, typename T>
Status RemoteExchange::Trade(const CollectivePart& part, uint64_t phase, S send, T take) {
  const SyncPoint& point = *part.point;
  Parcel parcels[kMaxProcesses];
  size_t count = 0;
  for (uint32_t r = 0; r < point.participants.size(); ++r) {
    if (r == part.rank) continue;
    const Bytes out = send(r), in = take(r);
    parcels[count++] = {point.participants[r], out.at, out.size, in.at, in.size};
  }
  Purpose purpose;
  purpose.words[0] = number_;
  purpose.words[1] = run_;
  purpose.words[2] = part.sync_point | uint64_t{static_cast<uint8_t>(point.op)} << 32 |
                     uint64_t{static_cast<uint8_t>(point.dtype)} << 40;
  purpose.words[3] = point.bytes;
  purpose.words[4] = phase;
  purpose.words[5] = Digest(point.participants);
  purpose.describe = Describe;
  return processes_.Transfer(purpose, {parcels, count});
}

// Every rank sums its part of all ranks' data; then all ranks get every part.
Status RemoteExchange::AllReduceInParts(const CollectivePart& part, const RankMemory& memory) {
  const SyncPoint& point = *part.point;
  const Part mine = PartOf(point, part.rank);
  RONDO_RETURN_IF_ERROR(Trade(
      part, 0,
      [&](uint32_t r) {
        const Part theirs = PartOf(point, r);
        return Bytes{At(memory.from) + theirs.first, theirs.size};
      },
      [&](uint32_t r) {
        return Bytes{scratch_.get() + r * mine.size, mine.size};
      }));
  RankMemory ranks[kMaxProcesses];
  for (uint32_t r = 0; r < point.participants.size(); ++r) {
    ranks[r].from = reinterpret_cast<DeviceAddress>(scratch_.get() + r * mine.size);
  }
  ranks[part.rank] = {memory.from + mine.first, memory.to + mine.first};
  SyncPoint sum = point;
  sum.bytes = mine.size;
  Exchange(sum, ranks, engine_, pool_);
  return Trade(
      part, 1,
      [&](uint32_t) {
        return Bytes{At(memory.to) + mine.first, mine.size};
      },
      [&](uint32_t r) {
        const Part theirs = PartOf(point, r);
        return Bytes{At(memory.to) + theirs.first, theirs.size};
      });
}

Status RemoteExchange::Run(const CollectivePart& part, const RankMemory& memory) {
  const SyncPoint& point = *part.point;
  if (point.op == CollectiveOp::kAllReduce && point.bytes > kWholeAllReduce) {
    return AllReduceInParts(part, memory);
  }
  const bool sums = FactsOf(point.op).adds;
  const Bytes own = Outgoing(point, part.rank, part.rank, memory),
              place = Incoming(point, part.rank, part.rank, memory);
  if (!sums && own.at != place.at && own.size != 0) std::memmove(place.at, own.at, own.size);
  RONDO_RETURN_IF_ERROR(Trade(
      part, 0, [&](uint32_t r) { return Outgoing(point, part.rank, r, memory); },
      [&](uint32_t r) {
        return sums ? Bytes{scratch_.get() + r * point.bytes, point.bytes}
                    : Incoming(point, part.rank, r, memory);
      }));
  if (!sums) return Status::Ok();
  RankMemory ranks[kMaxProcesses];
  for (uint32_t r = 0; r < point.participants.size(); ++r) {
    ranks[r].from = reinterpret_cast<DeviceAddress>(scratch_.get() + r * point.bytes);
  }
  ranks[part.rank] = {reinterpret_cast<DeviceAddress>(own.at), memory.to};
  SyncPoint sum = point;
  sum.op = CollectiveOp::kAllReduce;
  Exchange(sum, ranks, engine_, pool_);
  return Status::Ok();
}

}  // namespace rondo::host
