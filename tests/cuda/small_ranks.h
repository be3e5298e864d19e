// Ranks as threads of the CPU with shared memory: for tests of the kernels of small collectives
// (drivers/cuda/peer_collectives).
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "core/dtype.h"
#include "drivers/cuda/peer_collectives/exchange.h"

namespace rondo::small {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<char>;

// A thread of a rank.
struct Cpu {
  const Group& group;
  Call& call;
  Clock::time_point began = {};

  static Words Load(const Words* at) {
    return {__atomic_load_n(&at->low, __ATOMIC_RELAXED), __atomic_load_n(&at->high, __ATOMIC_RELAXED)};
  }
  static void Store(Words* at, Words words) {
    __atomic_store_n(&at->low, words.low, __ATOMIC_RELAXED);
    __atomic_store_n(&at->high, words.high, __ATOMIC_RELAXED);
  }
  static u64 ReadPack(const char* at) {
    u64 pack = 0;
    std::memcpy(&pack, at, sizeof(pack));
    return pack;
  }
  static void WritePack(char* at, u64 pack) { std::memcpy(at, &pack, sizeof(pack)); }
  static float HalfToFloat(u32 bits) { return F16ToFloat(static_cast<uint16_t>(bits)); }
  static u32 FloatsToHalves(float low, float high) { return FloatToF16(low) | u32{FloatToF16(high)} << 16; }
  static u32 FloatsToBHalves(float low, float high) {
    return FloatToBF16(low) | u32{FloatToBF16(high)} << 16;
  }
  static float Root(float value) { return std::sqrt(value); }
  bool GoOn(u32, u32 rank) {
    std::this_thread::yield();
    if (group.state->dead != 0) return false;
    if (__atomic_load_n(group.abort, __ATOMIC_RELAXED) != 0) return Fail(kAbortFault, rank);
    if (began == Clock::time_point()) began = Clock::now();
    const std::chrono::nanoseconds waited = Clock::now() - began;
    return static_cast<u64>(waited.count()) <= group.limit_ns || Fail(kLateFault, rank);
  }
  bool Fail(u32 fault, u32 rank) {
    group.state->dead = 1;
    if (call.faults->taken == 0) *call.faults = {fault, call.step, rank, group.limit_ns};
    return false;
  }
};

// Ranks with their inboxes.
struct Ranks {
  Ranks(u32 count, u64 capacity, u32 epoch = kFirstEpoch) : count(count), capacity(capacity) {
    for (u32 rank = 0; rank < count; ++rank) inboxes.emplace_back(kSlots * count * capacity, Words{});
    states.resize(count, State{u64{epoch} * kTicks, 0, 0});
    faults.resize(count);
  }
  Group Of(u32 rank) {
    Group group = {};
    for (u32 other = 0; other < count; ++other) group.inbox[other] = inboxes[other].data();
    group.state = &states[rank];
    group.abort = &abort;
    group.capacity = capacity;
    group.limit_ns = limit_ns;
    group.rank = rank;
    group.ranks = count;
    return group;
  }
  // Runs `work` on a thread for each rank.
  void Together(const std::function<void(u32 rank)>& work) const {
    std::vector<std::thread> threads;
    for (u32 rank = 0; rank < count; ++rank) threads.emplace_back(work, rank);
    for (std::thread& thread : threads) thread.join();
  }

  const u32 count;
  const u64 capacity;
  std::vector<std::vector<Words>> inboxes;
  std::vector<State> states;
  std::vector<cuda::FaultRecord> faults;
  u32 abort = 0;
  u64 limit_ns = 20'000'000'000;
};

inline u64 SizeOf(Element element) { return element == kF32 ? 4 : 2; }

inline float ValueAt(const Bytes& bytes, Element element, u64 i) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + i * SizeOf(element), SizeOf(element));
  if (element == kF16) return F16ToFloat(static_cast<uint16_t>(word));
  return element == kBF16 ? BF16ToFloat(static_cast<uint16_t>(word)) : std::bit_cast<float>(word);
}

inline Bytes Patterns(u64 bytes, u32 seed) {
  std::mt19937 random(seed);
  Bytes made(bytes);
  for (char& byte : made) byte = static_cast<char>(random());
  return made;
}

// Random finite numbers below 2.
inline Bytes Numbers(u64 bytes, Element element, u32 seed) {
  Bytes made = Patterns(bytes, seed);
  for (u64 i = SizeOf(element) - 1; i < bytes; i += SizeOf(element)) made[i] &= static_cast<char>(0xbb);
  return made;
}

}  // namespace rondo::small
