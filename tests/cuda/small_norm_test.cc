// All-reduces with a residual and a norm, with threads as blocks: the code of the kernels' threads
// (drivers/cuda/peer_collectives/norm.h), compiled for the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/cuda/small_block.h"
#include "tests/cuda/small_ranks.h"

namespace rondo::small {
namespace {

struct Case {
  Element element = kF32;
  u32 rows = 1, columns = 64;
  u32 flags = 0;
  u32 addends = 1;  // besides the ranks' sum
  bool bias = false, stores = true;
};

// The memory of a rank.
struct Memory {
  Bytes from, to, addends[2], scale, bias, sum, normed;
};

Norm NormOf(const Case& c, Memory* memory) {
  Norm norm = {};
  for (u32 a = 0; a < c.addends; ++a) norm.addends[a] = memory->addends[a].data();
  norm.scale = memory->scale.data();
  if (c.bias) norm.bias = memory->bias.data();
  if (c.stores) norm.sum = memory->sum.data();
  norm.normed = memory->normed.data();
  norm.rows = c.rows;
  norm.columns = c.columns;
  norm.flags = c.flags;
  norm.count = static_cast<float>(c.columns);
  norm.epsilon = 1e-5f;
  norm.parts = static_cast<u32>(PartsOf(norm, c.element));
  return norm;
}

// One collective on a rank, with a CPU thread for each block.
void DoNorm(Ranks* ranks, u32 rank, const Case& c, Memory* memory) {
  const Group group = ranks->Of(rank);
  Call call = {memory->from.data(),
               memory->to.data(),
               memory->from.size(),
               &ranks->faults[rank],
               7,
               c.element,
               nullptr};
  const Norm norm = NormOf(c, memory);
  if (ranks->states[rank].dead != 0) return;
  const auto blocks = static_cast<u32>(BlocksOf(norm, c.element));
  const u32 epoch = static_cast<u32>(ranks->states[rank].ticks / kTicks);
  std::vector<std::thread> threads;
  for (u32 block = 0; block < blocks; ++block) {
    const auto run = c.element == kF32   ? RunBlock<F32, Cpu>
                     : c.element == kF16 ? RunBlock<F16, Cpu>
                                         : RunBlock<BF16, Cpu>;
    threads.emplace_back([=, &group, &norm] {
      Call of_block = call;
      Cpu cpu{group, of_block};
      run(cpu, group, of_block, norm, epoch, block, blocks);
    });
  }
  for (std::thread& thread : threads) thread.join();
  ranks->states[rank].ticks += kTicks;
}

float Rounded(float value, Element element) {
  if (element == kF16) return F16ToFloat(FloatToF16(value));
  return element == kBF16 ? BF16ToFloat(FloatToBF16(value)) : value;
}

// A row's sum in the order of a separate norm kernel: each thread its vectors, then warps, then the block.
float SumOfRow(const std::vector<float>& values, Element element) {
  const size_t lanes = 16 / SizeOf(element), vectors = values.size() / lanes;
  const size_t width = vectors <= 128 ? 32 : 256;
  std::vector<float> sums(width, 0);
  for (size_t first = 0; first < vectors; first += width) {
    for (size_t t = 0; t < width && first + t < vectors; ++t) {
      float sum = 0;
      for (size_t e = 0; e < lanes; ++e) sum += values[(first + t) * lanes + e];
      sums[t] += sum;
    }
  }
  for (size_t warp = 0; warp < width; warp += 32) SumWarp(sums.data() + warp);
  float sum = sums[0];
  for (size_t warp = 32; warp < width; warp += 32) sum += sums[warp];
  return sum;
}

// Checks a rank's result. Returns "" or what is wrong.
std::string Wrong(const Case& c, const std::vector<Memory>& all, u32 rank) {
  const Memory& m = all[rank];
  const auto at = [&](const Bytes& bytes, u64 i) { return ValueAt(bytes, c.element, i); };
  for (u32 row = 0; row < c.rows; ++row) {
    std::vector<float> s, squares;
    for (u32 column = 0; column < c.columns; ++column) {
      const u64 i = u64{row} * c.columns + column;
      float sum = at(all[0].from, i);
      for (size_t other = 1; other < all.size(); ++other) sum += at(all[other].from, i);
      sum = Rounded(sum, c.element);
      if (at(m.to, i) != sum) return "the sum of the ranks at " + std::to_string(i);
      const float first = at(m.addends[0], (c.flags & kFirstIsRow) != 0 ? column : i),
                  second = at(m.addends[1], (c.flags & kSecondIsRow) != 0 ? column : i);
      float added = (c.flags & kLastOfSum) != 0 ? (first + second) + sum : sum;
      if ((c.flags & kLastOfSum) == 0 && c.addends > 0) added = added + first;
      if ((c.flags & kLastOfSum) == 0 && c.addends > 1) added = added + second;
      s.push_back(added);
      if (c.stores && at(m.sum, i) != Rounded(added, c.element)) return "s at " + std::to_string(i);
    }
    const auto count = static_cast<float>(c.columns);
    const float mean = (c.flags & kCentred) != 0 ? SumOfRow(s, c.element) / count : 0;
    for (float& value : s) {
      value = value - mean;
      squares.push_back(value * value);
    }
    const float scale = 1.0f / std::sqrt(SumOfRow(squares, c.element) / count + 1e-5f);
    for (u32 column = 0; column < c.columns; ++column) {
      const u64 i = u64{row} * c.columns + column;
      float value = s[column] * scale;
      if ((c.flags & kRounded) != 0) value = Rounded(value, c.element);
      value = value * at(m.scale, column);
      if (c.bias) value = value + at(m.bias, column);
      if (at(m.normed, i) != Rounded(value, c.element))
        return "the norm at " + std::to_string(i) + ": " + std::to_string(at(m.normed, i)) + " instead of " +
               std::to_string(value);
    }
  }
  return "";
}

std::vector<Memory> MemoryOf(u32 ranks, const Case& c, u32 seed) {
  const u64 row = c.columns * SizeOf(c.element), whole = row * c.rows;
  std::vector<Memory> all(ranks);
  for (u32 rank = 0; rank < ranks; ++rank) {
    Memory& m = all[rank];
    m.from = Numbers(whole, c.element, seed + rank);
    m.to = m.sum = m.normed = Bytes(whole, 'x');
    m.addends[0] = Numbers((c.flags & kFirstIsRow) != 0 ? row : whole, c.element, seed + 100);
    m.addends[1] = Numbers((c.flags & kSecondIsRow) != 0 ? row : whole, c.element, seed + 101);
    m.scale = Numbers(row, c.element, seed + 102);
    m.bias = Numbers(row, c.element, seed + 103);
  }
  return all;
}

// Runs a collective on all ranks. Returns "" or what is wrong.
std::string Try(Ranks* ranks, const Case& c, u32 seed) {
  std::vector<Memory> all = MemoryOf(ranks->count, c, seed);
  ranks->Together([&](u32 rank) { DoNorm(ranks, rank, c, &all[rank]); });
  for (u32 rank = 0; rank < ranks->count; ++rank) {
    if (ranks->faults[rank].taken != 0) return "fault";
    const std::string wrong = Wrong(c, all, rank);
    if (!wrong.empty()) return "rank " + std::to_string(rank) + ": " + wrong;
  }
  return "";
}

class SmallNorm : public testing::TestWithParam<u32> {};

TEST_P(SmallNorm, IsThatOfAKernelOfItsOwn) {
  Ranks ranks(GetParam(), 4096);
  for (Element element : {kF32, kF16, kBF16}) {
    const u32 lanes = static_cast<u32>(16 / SizeOf(element));
    for (const u32 vectors : {1u, 31u, 48u, 128u, 129u, 300u, 512u}) {
      for (const u32 rows : {1u, 3u}) {
        Case rms{element, rows, vectors * lanes, kRounded, 1};
        EXPECT_EQ(Try(&ranks, rms, vectors), "") << vectors << " vectors of element " << element;
        Case layer{element, rows, vectors * lanes, kCentred | kFirstIsRow, 2, true, false};
        EXPECT_EQ(Try(&ranks, layer, vectors), "") << vectors << " vectors of element " << element;
      }
    }
  }
}

TEST_P(SmallNorm, AddsInTheOrderOfTheKernel) {
  Ranks ranks(GetParam(), 256);
  for (const u32 flags : {0u, u32{kLastOfSum}, u32{kLastOfSum | kFirstIsRow}, u32{kSecondIsRow}})
    EXPECT_EQ(Try(&ranks, {kF32, 2, 64, flags, 2}, 3), "") << "flags " << flags;
  EXPECT_EQ(Try(&ranks, {kBF16, 2, 64, 0, 0}, 3), "");
}

// Each tensor lies in the memory of another one that is no longer needed.
TEST_P(SmallNorm, WorksInPlace) {
  const Case c{kF32, 2, 1200, 0, 1};
  Ranks ranks(GetParam(), 4096);
  const std::vector<Memory> apart = [&] {
    std::vector<Memory> all = MemoryOf(GetParam(), c, 9);
    ranks.Together([&](u32 rank) { DoNorm(&ranks, rank, c, &all[rank]); });
    return all;
  }();
  std::vector<Memory> all = MemoryOf(GetParam(), c, 9);
  ranks.Together([&](u32 rank) {
    Memory& m = all[rank];
    const Group group = ranks.Of(rank);
    Call call = {m.from.data(), m.from.data(), m.from.size(), &ranks.faults[rank], 7, c.element, nullptr};
    Norm norm = NormOf(c, &m);
    norm.sum = m.addends[0].data();
    norm.normed = m.from.data();
    const auto blocks = static_cast<u32>(BlocksOf(norm, c.element));
    std::vector<std::thread> threads;
    for (u32 block = 0; block < blocks; ++block)
      threads.emplace_back([&, block] {
        Cpu cpu{group, call};
        RunBlock<F32>(cpu, group, call, norm, static_cast<u32>(ranks.states[rank].ticks / kTicks), block,
                      blocks);
      });
    for (std::thread& thread : threads) thread.join();
  });
  for (u32 rank = 0; rank < GetParam(); ++rank) {
    EXPECT_EQ(all[rank].addends[0], apart[rank].sum);
    EXPECT_EQ(all[rank].from, apart[rank].normed);
  }
}

// Collectives one after another while the epoch wraps around, over slots full of old words.
TEST_P(SmallNorm, ManyInARowWhileTheEpochWraps) {
  Ranks ranks(GetParam(), 2048, 0u - 20);
  for (std::vector<Words>& inbox : ranks.inboxes)
    std::fill(inbox.begin(), inbox.end(), Words{u64{5} << 32, u64{5} << 32});
  for (u32 run = 0; run < 40; ++run) {
    const Case c{run % 2 == 0 ? kBF16 : kF32, 1 + run % 2, run % 3 == 0 ? 64u : 1600u,
                 run % 4 == 1 ? u32{kCentred} : 0u};
    EXPECT_EQ(Try(&ranks, c, run), "") << "run " << run;
  }
}

// Old notes between blocks are not mistaken for those with the same epoch 2^32 collectives later.
TEST_P(SmallNorm, OldNotesAreGoneBeforeTheEpochComesRound) {
  const u32 before = kCleaningPeriod - 2;
  Ranks ranks(GetParam(), 4096, before);
  const Case large{kF32, 2, 1600, kCentred}, few{kF32, 1, 64};
  for (u32 seed : {1u, 2u}) EXPECT_EQ(Try(&ranks, large, seed), "");
  for (u32 seed : {3u, 4u}) EXPECT_EQ(Try(&ranks, few, seed), "");
  for (u32 rank = 0; rank < GetParam(); ++rank) {
    const Words* const notes = ranks.inboxes[rank].data() + rank * ranks.capacity;
    for (u32 slot = 0; slot < kSlots; ++slot) {
      for (u64 i = 0; i < ranks.capacity; ++i) {
        const Words& words = notes[slot * GetParam() * ranks.capacity + i];
        ASSERT_GE(words.low >> 32, u64{kCleaningPeriod}) << "note " << i;
      }
    }
  }
}

TEST_P(SmallNorm, ARankThatDoesNotComeIsGivenUpInTime) {
  Ranks ranks(GetParam(), 4096);
  ranks.limit_ns = 30'000'000;
  const Case c{kF32, 1, 1600};
  std::vector<Memory> all = MemoryOf(GetParam(), c, 1);
  const auto start = Clock::now();
  for (int collectives = 0; collectives < 3; ++collectives) DoNorm(&ranks, 0, c, &all[0]);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(ranks.faults[0].taken, u64{kLateFault});
  EXPECT_EQ(ranks.faults[0].value, GetParam() - 1);
  EXPECT_EQ(all[0].normed, Bytes(all[0].normed.size(), 'x'));
}

INSTANTIATE_TEST_SUITE_P(Ranks, SmallNorm, testing::Values(2u, 3u, 8u));

}  // namespace
}  // namespace rondo::small
