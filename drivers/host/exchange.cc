#include "drivers/host/exchange.h"

#include <cstring>

namespace rondo::host {
namespace {

constexpr uint64_t kBytesOfShare = 1 << 16;  // worth another thread

struct Exchanging {
  const SyncPoint& point;
  const RankMemory* ranks;
  const Engine& engine;
  uint64_t elements;

  uint32_t count() const { return static_cast<uint32_t>(point.participants.size()); }
  uint64_t size() const { return static_cast<uint64_t>(ByteSize(point.dtype)); }
};

char* Bytes(DeviceAddress address) { return reinterpret_cast<char*>(address); }

template <typename T>
void Add(void* sum, const void* more, int n) {
  T* to = static_cast<T*>(sum);
  const T* from = static_cast<const T*>(more);
  for (int i = 0; i < n; ++i) to[i] = to[i] + from[i];
}

// Sums over the ranks `n` elements, from `byte` of their sources on, and rounds the sums to the dtype.
void Sum(const Exchanging& e, uint64_t byte, int n, void* out) {
  alignas(64) char sum[kLanes * sizeof(double)];
  alignas(64) char more[kLanes * sizeof(double)];
  const int dtype = static_cast<int>(e.point.dtype), unit = static_cast<int>(LaneKind::kUnit);
  const LanePattern lane;
  const TapeType type = NaturalType(e.point.dtype);
  e.engine.load[dtype][unit](sum, Bytes(e.ranks[0].from + byte), lane, n);
  for (uint32_t r = 1; r < e.count(); ++r) {
    e.engine.load[dtype][unit](more, Bytes(e.ranks[r].from + byte), lane, n);
    if (type == TapeType::kF32) Add<float>(sum, more, n);
    if (type == TapeType::kF64) Add<double>(sum, more, n);
    if (type == TapeType::kI64) Add<uint64_t>(sum, more, n);
  }
  e.engine.store[dtype][unit](static_cast<char*>(out), sum, lane, n);
}

// Reduces elements [first, last) of each share.
void Reduce(const Exchanging& e, uint64_t first, uint64_t last, bool scatter) {
  alignas(64) char narrow[kLanes * sizeof(double)];
  const uint32_t shares = scatter ? e.count() : 1;
  for (uint64_t at = first; at < last; at += kLanes) {
    const int n = static_cast<int>(last - at < kLanes ? last - at : kLanes);
    const uint64_t byte = at * e.size(), bytes = static_cast<uint64_t>(n) * e.size();
    for (uint32_t share = 0; share < shares; ++share) {
      Sum(e, share * e.point.bytes + byte, n, narrow);
      for (uint32_t r = scatter ? share : 0; r < (scatter ? share + 1 : e.count()); ++r) {
        if (e.ranks[r].to != 0) std::memcpy(Bytes(e.ranks[r].to + byte), narrow, bytes);
      }
    }
  }
}

void Copy(const Exchanging& e, uint64_t first, uint64_t last, bool gather) {
  const uint64_t byte = first * e.size(), bytes = (last - first) * e.size();
  for (uint32_t source = 0; source < (gather ? e.count() : 1); ++source) {
    const char* from = Bytes(e.ranks[source].from + byte);
    for (uint32_t r = 0; r < e.count(); ++r) {
      char* to = Bytes(e.ranks[r].to + source * e.point.bytes + byte);
      if (to != from) std::memmove(to, from, bytes);
    }
  }
}

// Copies part `rank` of every rank's data.
void Swap(const Exchanging& e, uint64_t first, uint64_t last) {
  const uint64_t byte = first * e.size(), bytes = (last - first) * e.size(), part = e.point.bytes / e.count();
  for (uint32_t source = 0; source < e.count(); ++source) {
    for (uint32_t r = 0; r < e.count(); ++r)
      std::memcpy(Bytes(e.ranks[r].to + source * part + byte), Bytes(e.ranks[source].from + r * part + byte),
                  bytes);
  }
}

void Send(const Exchanging& e, uint64_t first, uint64_t last) {
  const uint64_t byte = first * e.size();
  std::memcpy(Bytes(e.ranks[1].to + byte), Bytes(e.ranks[0].from + byte), (last - first) * e.size());
}

void Share(void* context, uint32_t share, uint32_t shares) {
  const Exchanging& e = *static_cast<const Exchanging*>(context);
  const uint64_t first = e.elements * share / shares, last = e.elements * (share + 1) / shares;
  switch (e.point.op) {
    case CollectiveOp::kAllReduce: return Reduce(e, first, last, false);
    case CollectiveOp::kReduceScatter: return Reduce(e, first, last, true);
    case CollectiveOp::kAllGather: return Copy(e, first, last, true);
    case CollectiveOp::kBroadcast: return Copy(e, first, last, false);
    case CollectiveOp::kSend: return Send(e, first, last);
    case CollectiveOp::kAllToAll: return Swap(e, first / e.count(), last / e.count());
  }
}

}  // namespace

void Exchange(const SyncPoint& point, const RankMemory* ranks, const Engine& engine, ThreadPool& pool) {
  Exchanging e{point, ranks, engine, point.bytes / static_cast<uint64_t>(ByteSize(point.dtype))};
  const uint64_t shares = point.bytes * point.participants.size() / kBytesOfShare + 1;
  pool.Run(Share, &e, shares < kMaxThreads ? static_cast<uint32_t>(shares) : kMaxThreads);
}

}  // namespace rondo::host
