// Instructions on the shared memory of a block and of its cluster: loads and stores, asynchronous copies, and
// the barriers that count them.
#include <algorithm>

#include "drivers/cuda/cuda_api.h"
#include "tests/cuda/emulated/mbarrier.h"
#include "tests/cuda/emulated/ptx_thread.h"
#include "tests/cuda/fake/tensor_map.h"

namespace rondo::emulated {
namespace {

constexpr uint32_t kWithinBlock = (1u << kBlockShift) - 1;

const std::vector<PtxArgument>& Parts(const std::vector<PtxArgument>& one, const PtxArgument& argument) {
  return argument.kind == PtxArgument::kList ? argument.inside : one;
}

size_t ElementBytes(const PtxStatement& s) {
  return s.Has("u64") || s.Has("s64") || s.Has("b64") ? 8 : s.Has("u16") || s.Has("b16") ? 2 : 4;
}

bool Aligned(PtxThread& t, uint32_t address, size_t bytes) {
  if (address % bytes == 0) return true;
  t.machine.Fail("shared address " + std::to_string(address) + " is no multiple of " + std::to_string(bytes) +
                 ": " + t.text);
  return false;
}

void LoadShared(PtxThread& t, const PtxStatement& s) {
  const std::vector<PtxArgument> one = {s.arguments[0]};
  const std::vector<PtxArgument>& to = Parts(one, s.arguments[0]);
  const size_t bytes = ElementBytes(s);
  const uint32_t address = t.Word(s.arguments[1]);
  if (!Aligned(t, address, bytes * to.size())) return;
  const char* from = t.machine.Shared(address, bytes * to.size());
  for (size_t k = 0; k < to.size(); ++k) {
    uint64_t value = 0;
    std::memcpy(&value, from + k * bytes, bytes);
    t.Set(to[k], value);
  }
}
void StoreShared(PtxThread& t, const PtxStatement& s) {
  const std::vector<PtxArgument> one = {s.arguments[1]};
  const std::vector<PtxArgument>& from = Parts(one, s.arguments[1]);
  const size_t bytes = ElementBytes(s);
  const uint32_t address = t.Word(s.arguments[0]);
  if (!Aligned(t, address, bytes * from.size())) return;
  char* to = t.machine.Shared(address, bytes * from.size());
  for (size_t k = 0; k < from.size(); ++k) {
    const uint64_t value = t.Get(from[k]);
    std::memcpy(to + k * bytes, &value, bytes);
  }
}
void LoadGlobal(PtxThread& t, const PtxStatement& s) {
  uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(t.Get(s.arguments[1])), ElementBytes(s));
  t.Set(s.arguments[0], value);
}

// red: adds to memory, or leaves the greater or the less there.
void UpdateGlobal(PtxThread& t, const PtxStatement& s) {
  auto* at = reinterpret_cast<void*>(t.Get(s.arguments[0]));
  const size_t bytes = ElementBytes(s);
  uint64_t was = 0, value = 0, given = t.Get(s.arguments[1]);
  std::memcpy(&was, at, bytes);
  std::memcpy(&value, &given, bytes);
  const bool less = s.Has("s32")   ? static_cast<int32_t>(value) < static_cast<int32_t>(was)
                    : s.Has("s64") ? static_cast<int64_t>(value) < static_cast<int64_t>(was)
                                   : value < was;
  const uint64_t now = s.Has("add") ? was + value : less == s.Has("min") ? value : was;
  std::memcpy(at, &now, bytes);
}

// mapa: the same place in another block of the cluster.
void MapShared(PtxThread& t, const PtxStatement& s) {
  t.Set(s.arguments[0], (t.Word(s.arguments[1]) & kWithinBlock) | t.Word(s.arguments[2]) << kBlockShift);
}

// cp.async [to], [from], bytes, how many of them come from memory; the others are zeros.
void CopyAsync(PtxThread& t, const PtxStatement& s) {
  const uint32_t to = t.Word(s.arguments[0]);
  const auto* from = reinterpret_cast<const char*>(t.Get(s.arguments[1]));
  const size_t bytes = t.Word(s.arguments[2]);
  const size_t present = s.arguments.size() > 3 ? std::min<size_t>(bytes, t.Word(s.arguments[3])) : bytes;
  if (!Aligned(t, to, bytes)) return;
  if (present > 0 && reinterpret_cast<uintptr_t>(from) % bytes != 0)
    return t.machine.Fail("a copy of " + std::to_string(bytes) +
                          " bytes from an address that is no multiple of it");
  SimtMachine& machine = t.machine;
  machine.Shared(to, bytes);  // checks now that the destination exists
  auto copy = [&machine, to, from, bytes, present] {
    char* at = machine.Shared(to, bytes);
    std::memset(at, 0, bytes);
    if (present > 0) std::memcpy(at, from, present);
  };
  if (machine.late())
    machine.current().copies.open.push_back(copy);
  else
    copy();
}
void Commit(Thread::CopyGroups* groups) {
  groups->committed.push_back(std::move(groups->open));
  groups->open.clear();
}
void WaitFor(Thread::CopyGroups* groups, size_t pending) {
  while (groups->committed.size() > pending) {
    for (const auto& copy : groups->committed.front()) copy();
    groups->committed.pop_front();
  }
}
void CommitCopies(PtxThread& t, const PtxStatement&) { Commit(&t.machine.current().copies); }
void WaitCopies(PtxThread& t, const PtxStatement& s) {
  WaitFor(&t.machine.current().copies, t.Word(s.arguments[0]));
}
void CommitStores(PtxThread& t, const PtxStatement&) { Commit(&t.machine.current().stores); }
// Whether it waits for the reads or for all: here they happen at once.
void WaitStores(PtxThread& t, const PtxStatement& s) {
  WaitFor(&t.machine.current().stores, t.Word(s.arguments[0]));
}

Mbarrier* BarrierAt(SimtMachine& machine, uint32_t address) {
  return reinterpret_cast<Mbarrier*>(machine.Shared(address, sizeof(Mbarrier)));
}
void BytesCame(SimtMachine& machine, uint32_t barrier, size_t bytes) {
  Mbarrier* at = BarrierAt(machine, barrier);
  at->bytes -= static_cast<int32_t>(bytes);
  Settle(at);
}
void InitBarrier(PtxThread& t, const PtxStatement& s) {
  if (!Aligned(t, t.Word(s.arguments[0]), 8)) return;
  const auto count = static_cast<uint16_t>(t.Word(s.arguments[1]));
  *BarrierAt(t.machine, t.Word(s.arguments[0])) = {count, count, 0, 0};
}
void ArriveAt(PtxThread& t, uint32_t address) {
  Mbarrier* barrier = BarrierAt(t.machine, address);
  if (barrier->pending == 0) return t.machine.Fail("more arrivals at an mbarrier than it was made for");
  --barrier->pending;
  Settle(barrier);
}
// mbarrier.arrive _, [barrier]; with expect_tx also the bytes.
void Arrive(PtxThread& t, const PtxStatement& s) {
  const uint32_t address = t.Word(s.arguments[1]);
  if (s.Has("expect_tx"))
    BarrierAt(t.machine, address)->bytes += static_cast<int32_t>(t.Word(s.arguments[2]));
  ArriveAt(t, address);
}
// cp.async.mbarrier.arrive.noinc [barrier]: here the copies end at once.
void ArriveWhenCopied(PtxThread& t, const PtxStatement& s) {
  Commit(&t.machine.current().copies);
  WaitFor(&t.machine.current().copies, 0);
  ArriveAt(t, t.Word(s.arguments[0]));
}
void TryWait(PtxThread& t, const PtxStatement& s) {
  const uint32_t barrier = t.Word(s.arguments[1]);
  const bool parity = t.Get(s.arguments[2]) != 0;
  if (!IsComplete(*BarrierAt(t.machine, barrier), parity))
    t.machine.WaitFor({"mbarrier.try_wait", nullptr, 0, barrier, parity});
  t.Set(s.arguments[0], 1);
}
void StoreAsync(PtxThread& t, const PtxStatement& s) {
  const uint32_t to = t.Word(s.arguments[0]), barrier = t.Word(s.arguments[2]);
  const uint64_t value = t.Get(s.arguments[1]);
  SimtMachine& machine = t.machine;
  machine.Begin([&machine, to, barrier, value] {
    std::memcpy(machine.Shared(to, 8), &value, 8);
    BytesCame(machine, barrier, 8);
  });
}

// cp.async.bulk [to], [from], bytes, [barrier]
void CopyBulk(PtxThread& t, const PtxStatement& s) {
  const uint32_t to = t.Word(s.arguments[0]), bytes = t.Word(s.arguments[2]),
                 barrier = t.Word(s.arguments[3]);
  const auto* from = reinterpret_cast<const char*>(t.Get(s.arguments[1]));
  if (to % 16 != 0 || bytes % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0)
    return t.machine.Fail("a bulk copy whose addresses or bytes are no multiples of 16");
  SimtMachine& machine = t.machine;
  machine.Begin([&machine, to, from, bytes, barrier] {
    std::memcpy(machine.Shared(to, bytes), from, bytes);
    BytesCame(machine, barrier, bytes);
  });
}
// The box of the argument [map, {coordinates}], which lies at the shared address.
struct Box {
  fake_cuda::TensorMap map;
  std::vector<int64_t> at;
};
Box BoxOf(PtxThread& t, const PtxArgument& argument, uint32_t shared) {
  Box box;
  const auto* encoded = reinterpret_cast<const cuda::EncodedMap*>(t.Get(argument));
  std::memcpy(static_cast<void*>(&box.map), encoded, sizeof box.map);
  for (const PtxArgument& coordinate : argument.inside[1].inside)
    box.at.push_back(static_cast<int32_t>(t.Word(coordinate)));
  if (box.at.size() != box.map.rank)
    t.machine.Fail("a box has another number of coordinates than its tensor map");
  if (shared % 128 != 0) t.machine.Fail("a box lies at a shared address that is no multiple of 128");
  return box;
}
// cp.async.bulk.tensor [to], [map, {coordinates}], [barrier], and for a multicast the bits of the blocks.
void CopyBox(PtxThread& t, const PtxStatement& s) {
  const uint32_t to = t.Word(s.arguments[0]), barrier = t.Word(s.arguments[2]);
  const auto [map, at] = BoxOf(t, s.arguments[1], to);
  const uint32_t own = 1u << (to >> kBlockShift);
  const uint32_t blocks = s.Has("multicast") ? t.Word(s.arguments[3]) & 0xffff : own;
  SimtMachine& machine = t.machine;
  machine.Begin([&machine, to, barrier, map = map, at = at, blocks] {
    const std::vector<char> box = fake_cuda::ReadBox(map, at);
    for (uint32_t rank = 0; rank < machine.cluster().blocks.size(); ++rank) {
      if ((blocks >> rank & 1) == 0) continue;
      const uint32_t first = (to & kWithinBlock) | rank << kBlockShift;
      for (size_t byte = 0; byte < box.size(); byte += 16) {
        const auto place = static_cast<uint32_t>(first + byte);
        std::memcpy(machine.Shared(fake_cuda::Swizzled(place, map.swizzle_bytes), 16), box.data() + byte, 16);
      }
      BytesCame(machine, (barrier & kWithinBlock) | rank << kBlockShift, box.size());
    }
  });
}
// cp.async.bulk.tensor.global [map, {coordinates}], [from]
void StoreBox(PtxThread& t, const PtxStatement& s) {
  const uint32_t from = t.Word(s.arguments[1]);
  const auto [map, at] = BoxOf(t, s.arguments[0], from);
  SimtMachine& machine = t.machine;
  auto store = [&machine, from, map = map, at = at] {
    std::vector<char> box(fake_cuda::BoxBytes(map));
    for (size_t byte = 0; byte < box.size(); byte += 16) {
      const auto place = static_cast<uint32_t>(from + byte);
      std::memcpy(box.data() + byte, machine.Shared(fake_cuda::Swizzled(place, map.swizzle_bytes), 16), 16);
    }
    fake_cuda::WriteBox(map, at, box);
  };
  if (machine.late())
    machine.current().stores.open.push_back(store);
  else
    store();
}

void ArriveCluster(PtxThread& t, const PtxStatement&) { t.machine.ArriveAtCluster(); }
void WaitCluster(PtxThread& t, const PtxStatement&) { t.machine.WaitForCluster(); }
void NamedSync(PtxThread& t, const PtxStatement& s) {
  t.machine.Barrier(t.Word(s.arguments[0]), s.arguments.size() > 1 ? t.Word(s.arguments[1]) : 0);
}
void NamedArrive(PtxThread& t, const PtxStatement& s) {
  t.machine.ArriveAtBarrier(t.Word(s.arguments[0]), t.Word(s.arguments[1]));
}

}  // namespace

const PtxRow kMemoryInstructions[] = {
    {"ld.shared", LoadShared},
    {"st.shared", StoreShared},
    {"ld.relaxed.gpu.global", LoadGlobal},
    {"ld.global", LoadGlobal},
    {"red.relaxed.gpu.global", UpdateGlobal},
    {"mapa.shared::cluster", MapShared},
    {"cp.async.ca.shared.global", CopyAsync},
    {"cp.async.cg.shared.global", CopyAsync},
    {"cp.async.commit_group", CommitCopies},
    {"cp.async.wait_group", WaitCopies},
    {"cp.async.mbarrier.arrive.noinc", ArriveWhenCopied},
    {"mbarrier.init", InitBarrier},
    {"mbarrier.arrive", Arrive},
    {"mbarrier.try_wait.parity", TryWait},
    {"st.async", StoreAsync},
    {"cp.async.bulk.shared::cluster.global", CopyBulk},
    {"cp.async.bulk.tensor", CopyBox},
    {"cp.async.bulk.tensor.5d.global", StoreBox},
    {"cp.async.bulk.commit_group", CommitStores},
    {"cp.async.bulk.wait_group", WaitStores},
    {"barrier.cluster.arrive", ArriveCluster},
    {"barrier.cluster.wait", WaitCluster},
    {"bar.sync", NamedSync},
    {"bar.arrive", NamedArrive},
    {nullptr, nullptr},
};

}  // namespace rondo::emulated
