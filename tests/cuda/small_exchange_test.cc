// Small collectives with threads as ranks: the code of the kernels' threads
// (drivers/cuda/peer_collectives/exchange.h), compiled for the CPU, over memory that all ranks share.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/small_ranks.h"

namespace rondo::small {
namespace {

enum class Kind { kOneShot, kTwoShot, kReduceScatter, kAllGather };

constexpr u32 kThreads = 5;  // of a rank's kernel; they take packs in turn

// One collective on a rank, computed like the kernel.
void Do(Ranks* ranks, u32 rank, Kind kind, Element element, const char* from, char* to, u64 bytes) {
  const Group group = ranks->Of(rank);
  Call call = {from, to, bytes, &ranks->faults[rank], 7, element, nullptr};
  const u32 epoch = static_cast<u32>(ranks->states[rank].ticks / kTicks);
  for (u32 thread = 0; thread < kThreads && ranks->states[rank].dead == 0; ++thread) {
    Cpu cpu{group, call};
    Exchange<Cpu> exchange(cpu, group, call, epoch, thread, kThreads);
    if (kind == Kind::kOneShot) exchange.AllReduceOneShot();
    if (kind == Kind::kTwoShot) exchange.AllReduceTwoShot();
    if (kind == Kind::kReduceScatter) exchange.ReduceScatter();
    if (kind == Kind::kAllGather) exchange.AllGather();
  }
  ranks->states[rank].ticks += kTicks;
}

// Compares element `i` of `got` with the sum of element `at` of all ranks, from rank 0 on. Returns "" or what
// is wrong.
std::string WrongSum(const std::vector<Bytes>& from, Element element, u64 at, const Bytes& got, u64 i) {
  float sum = ValueAt(from[0], element, at);
  for (size_t rank = 1; rank < from.size(); ++rank) sum += ValueAt(from[rank], element, at);
  if (element == kF16) sum = F16ToFloat(FloatToF16(sum));
  if (element == kBF16) sum = BF16ToFloat(FloatToBF16(sum));
  const float is = ValueAt(got, element, i);
  const bool right = std::isnan(sum) ? std::isnan(is) : std::bit_cast<u32>(sum) == std::bit_cast<u32>(is);
  return right ? "" : std::to_string(is) + " instead of " + std::to_string(sum);
}

// Runs one collective on all ranks. Returns "" or what is wrong with its result. `offset`: bytes by which
// tensors begin after an aligned address. `late`: a rank that arrives last.
std::string Try(Ranks* ranks, Kind kind, Element element, const std::vector<Bytes>& from, u64 bytes,
                u64 offset = 0, u32 late = kMostRanks) {
  const u64 written = kind == Kind::kAllGather ? bytes * ranks->count : bytes;
  std::vector<Bytes> in, out(ranks->count, Bytes(written + offset + 8, 'x'));
  for (const Bytes& of : from) {
    in.emplace_back(offset, 'y');
    in.back().insert(in.back().end(), of.begin(), of.end());
  }
  ranks->Together([&](u32 rank) {
    if (rank == late) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Do(ranks, rank, kind, element, in[rank].data() + offset, out[rank].data() + offset, bytes);
  });
  for (u32 rank = 0; rank < ranks->count; ++rank) {
    const std::string who = "rank " + std::to_string(rank) + ": ";
    if (ranks->faults[rank].taken != 0) return who + "fault";
    for (u64 i = written + offset; i < out[rank].size(); ++i) {
      if (out[rank][i] != 'x') return who + "wrote behind the end";
    }
    const Bytes got(out[rank].begin() + static_cast<int64_t>(offset),
                    out[rank].begin() + static_cast<int64_t>(offset + written));
    if (kind == Kind::kAllGather) {
      for (u32 other = 0; other < ranks->count; ++other) {
        if (std::memcmp(got.data() + other * bytes, from[other].data(), bytes) != 0)
          return who + "what rank " + std::to_string(other) + " gave is not there";
      }
      continue;
    }
    const u64 elements = bytes / SizeOf(element), first = kind == Kind::kReduceScatter ? rank * elements : 0;
    for (u64 i = 0; i < elements; ++i) {
      const std::string wrong = WrongSum(from, element, first + i, got, i);
      if (!wrong.empty()) return who + "element " + std::to_string(i) + " is " + wrong;
    }
    if (kind != Kind::kReduceScatter && std::memcmp(out[rank].data(), out[0].data(), out[0].size()) != 0)
      return who + "other bits than rank 0";
  }
  return "";
}

std::vector<Bytes> InputsOf(u32 ranks, Kind kind, Element element, u64 bytes, u32 seed) {
  std::vector<Bytes> from;
  for (u32 rank = 0; rank < ranks; ++rank)
    from.push_back(Numbers(kind == Kind::kReduceScatter ? bytes * ranks : bytes, element, seed + 100 * rank));
  return from;
}

class SmallExchange : public testing::TestWithParam<u32> {};

// No bit pattern of data is mistaken for a flag.
TEST_P(SmallExchange, All65536PatternsPass) {
  constexpr u64 kPatterns = 65536;
  Ranks ranks(GetParam(), 2 * PacksOf(2 * kPatterns));
  std::vector<Bytes> from;
  for (u32 rank = 0; rank < GetParam(); ++rank) {
    Bytes& mine = from.emplace_back(2 * kPatterns);
    for (u32 i = 0; i < kPatterns; ++i) {
      const auto pattern = static_cast<uint16_t>(i * (2 * rank + 1) + 977 * rank);
      std::memcpy(mine.data() + 2 * i, &pattern, 2);
    }
  }
  EXPECT_EQ(Try(&ranks, Kind::kAllGather, kF32, from, 2 * kPatterns), "");
  for (Element element : {kF16, kBF16}) {
    for (Kind kind : {Kind::kOneShot, Kind::kTwoShot})
      EXPECT_EQ(Try(&ranks, kind, element, from, 2 * kPatterns), "") << "element " << element;
    EXPECT_EQ(Try(&ranks, Kind::kReduceScatter, element, from, 2 * kPatterns / GetParam()), "");
  }
  std::vector<Bytes> words;
  for (u32 rank = 0; rank < GetParam(); ++rank) words.push_back(Patterns(4 * kPatterns, rank));
  EXPECT_EQ(Try(&ranks, Kind::kAllGather, kF32, words, 4 * kPatterns), "");
}

TEST_P(SmallExchange, AnySizeAnywhere) {
  Ranks ranks(GetParam(), 256);
  for (Element element : {kF32, kF16, kBF16}) {
    for (u64 elements = 1; elements < 40; ++elements) {
      const u64 bytes = elements * SizeOf(element);
      for (Kind kind : {Kind::kOneShot, Kind::kReduceScatter, Kind::kAllGather}) {
        const u64 offset = elements % 4 * SizeOf(element);
        EXPECT_EQ(Try(&ranks, kind, element, InputsOf(GetParam(), kind, element, bytes, 3), bytes, offset),
                  "")
            << elements << " elements of kind " << element;
      }
      const u64 packs = PacksOf(bytes);
      if (packs <= PartOf(packs, GetParam()) * (GetParam() - 1)) continue;  // some rank has no part
      EXPECT_EQ(Try(&ranks, Kind::kTwoShot, element, InputsOf(GetParam(), Kind::kTwoShot, element, bytes, 3),
                    bytes),
                "");
    }
  }
}

TEST_P(SmallExchange, WorksInPlace) {
  constexpr u64 kBytes = 136;
  Ranks ranks(GetParam(), 256);
  for (Kind kind : {Kind::kOneShot, Kind::kTwoShot, Kind::kReduceScatter, Kind::kAllGather}) {
    const std::vector<Bytes> from = InputsOf(GetParam(), kind, kF32, kBytes, 5);
    std::vector<Bytes> memory(GetParam(), Bytes(kBytes * GetParam()));
    ranks.Together([&](u32 rank) {
      const u64 part = kind == Kind::kAllGather || kind == Kind::kReduceScatter ? rank * kBytes : 0;
      const u64 in = kind == Kind::kAllGather ? part : 0, out = kind == Kind::kReduceScatter ? part : 0;
      std::memcpy(memory[rank].data() + in, from[rank].data(), from[rank].size());
      Do(&ranks, rank, kind, kF32, memory[rank].data() + in, memory[rank].data() + out, kBytes);
    });
    for (u32 rank = 0; rank < GetParam(); ++rank) {
      for (u64 i = 0; i < kBytes / 4; ++i) {
        const u64 part = kind == Kind::kReduceScatter ? rank * kBytes / 4 : 0;
        if (kind == Kind::kAllGather) break;
        EXPECT_EQ(WrongSum(from, kF32, part + i, memory[rank], part + i), "") << "kind " << int(kind);
      }
      for (u32 other = 0; kind == Kind::kAllGather && other < GetParam(); ++other)
        EXPECT_EQ(std::memcmp(memory[rank].data() + other * kBytes, from[other].data(), kBytes), 0);
    }
  }
}

// Collectives of all kinds and sizes one after another, each rank at its own pace, while the epoch wraps
// around.
TEST_P(SmallExchange, ManyInARowWhileTheEpochWraps) {
  constexpr u64 kMost = 512;  // bytes
  constexpr u32 kRuns = 600;
  Ranks ranks(GetParam(), 2 * PacksOf(kMost), 0u - 100);
  for (std::vector<Words>& inbox : ranks.inboxes)  // as if these words were left by earlier collectives
    std::fill(inbox.begin(), inbox.end(), Words{u64{5} << 32, u64{5} << 32});
  std::vector<std::vector<Bytes>> from(kRuns), out(kRuns);
  struct Run {
    Kind kind;
    Element element;
    u64 bytes;
  };
  std::vector<Run> runs;
  std::mt19937 random(GetParam());
  for (u32 r = 0; r < kRuns; ++r) {
    const Element element = Element(random() % 3);
    Run run{Kind(random() % 4), element, (1 + random() % (kMost / SizeOf(element))) * SizeOf(element)};
    const u64 packs = PacksOf(run.bytes);
    if (packs <= PartOf(packs, GetParam()) * (GetParam() - 1) && run.kind == Kind::kTwoShot)
      run.kind = Kind::kOneShot;
    runs.push_back(run);
    from[r] = InputsOf(GetParam(), run.kind, element, run.bytes, r);
    out[r].assign(GetParam(), Bytes(run.kind == Kind::kAllGather ? run.bytes * GetParam() : run.bytes));
  }
  ranks.Together([&](u32 rank) {
    std::mt19937 pace(rank);
    for (u32 r = 0; r < kRuns; ++r) {
      if (pace() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(pace() % 200));
      Do(&ranks, rank, runs[r].kind, runs[r].element, from[r][rank].data(), out[r][rank].data(),
         runs[r].bytes);
    }
  });
  for (u32 r = 0; r < kRuns && !HasFailure(); ++r) {
    const Run& run = runs[r];
    for (u32 rank = 0; rank < GetParam(); ++rank) {
      EXPECT_EQ(ranks.faults[rank].taken, 0u);
      const u64 elements = run.bytes / SizeOf(run.element);
      for (u64 i = 0; run.kind != Kind::kAllGather && i < elements; ++i) {
        const u64 at = (run.kind == Kind::kReduceScatter ? rank * elements : 0) + i;
        EXPECT_EQ(WrongSum(from[r], run.element, at, out[r][rank], i), "") << "run " << r << " rank " << rank;
      }
      for (u32 other = 0; run.kind == Kind::kAllGather && other < GetParam(); ++other) {
        EXPECT_EQ(std::memcmp(out[r][rank].data() + other * run.bytes, from[r][other].data(), run.bytes), 0)
            << "run " << r << " rank " << rank;
      }
    }
  }
}

// Words of an old collective are not mistaken for those with the same epoch 2^32 collectives later.
TEST_P(SmallExchange, OldWordsAreGoneBeforeTheEpochComesRound) {
  constexpr u64 kBytes = 4096, kFew = 256;
  for (Kind kind : {Kind::kOneShot, Kind::kTwoShot, Kind::kReduceScatter, Kind::kAllGather}) {
    const u32 before = kCleaningPeriod - 2;
    Ranks ranks(GetParam(), 2 * PacksOf(kBytes), before);
    for (u32 seed : {1u, 2u})
      EXPECT_EQ(Try(&ranks, kind, kF32, InputsOf(GetParam(), kind, kF32, kBytes, seed), kBytes), "");
    for (u32 few = 0; few < kSlots; ++few)
      EXPECT_EQ(Try(&ranks, kind, kF32, InputsOf(GetParam(), kind, kF32, kFew, few), kFew), "");
    for (State& state : ranks.states) state.ticks = u64{before} * kTicks;
    for (u32 seed : {3u, 4u}) {
      EXPECT_EQ(Try(&ranks, kind, kF32, InputsOf(GetParam(), kind, kF32, kBytes, seed), kBytes, 0, seed % 2),
                "")
          << "kind " << int(kind);
    }
  }
}

// Both halves of a pack are checked, whichever arrives first.
TEST(SmallExchangeOfTwo, HalfAPackIsWaitedFor) {
  for (const bool low_first : {true, false}) {
    Ranks ranks(2, 4);
    float from[2] = {1, 2}, to[2] = {};
    std::atomic<bool> ended{false};
    std::thread rank([&] {
      Do(&ranks, 0, Kind::kOneShot, kF32, reinterpret_cast<char*>(from), reinterpret_cast<char*>(to), 8);
      ended = true;
    });
    Words* const place = &ranks.inboxes[0][kFirstEpoch % kSlots * 2 * ranks.capacity + ranks.capacity];
    const u64 flag = u64{kFirstEpoch} << 32;
    const u64 halves[] = {flag | std::bit_cast<u32>(10.0f), flag | std::bit_cast<u32>(20.0f)};
    __atomic_store_n(low_first ? &place->low : &place->high, halves[low_first ? 0 : 1], __ATOMIC_RELAXED);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(ended);
    __atomic_store_n(low_first ? &place->high : &place->low, halves[low_first ? 1 : 0], __ATOMIC_RELAXED);
    rank.join();
    EXPECT_EQ(to[0], 11);
    EXPECT_EQ(to[1], 22);
  }
}

TEST_P(SmallExchange, ARankThatDoesNotComeIsGivenUpInTime) {
  Ranks ranks(GetParam(), 256);
  ranks.limit_ns = 30'000'000;
  const u32 missing = GetParam() - 1;
  Bytes from(512), to(512, 'x');
  const auto start = Clock::now();
  for (int collectives = 0; collectives < 20; ++collectives)
    Do(&ranks, 0, Kind::kOneShot, kF32, from.data(), to.data(), from.size());
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));  // only the first one waits
  EXPECT_EQ(ranks.faults[0].taken, u64{kLateFault});
  EXPECT_EQ(ranks.faults[0].value, missing);
  EXPECT_EQ(ranks.faults[0].step, 7u);
  EXPECT_EQ(to, Bytes(512, 'x'));
}

TEST_P(SmallExchange, AnAbortEndsTheWait) {
  Ranks ranks(GetParam(), 256);
  Bytes from(512), to(512, 'x');
  const auto start = Clock::now();
  std::thread rank([&] { Do(&ranks, 0, Kind::kTwoShot, kBF16, from.data(), to.data(), from.size()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  __atomic_store_n(&ranks.abort, 1, __ATOMIC_RELAXED);
  rank.join();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(ranks.faults[0].taken, u64{kAbortFault});
}

INSTANTIATE_TEST_SUITE_P(Ranks, SmallExchange, testing::Values(2u, 3u, 4u, 8u));

}  // namespace
}  // namespace rondo::small
