#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/host/driver_case.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

// Loops: batch, heads, queries, value features, keys, features.
struct Attention {
  explicit Attention(Arena* arena) : maker(arena) {}
  PartMaker maker;
  uint16_t limit = 0, values = 0, keys = 0;
};

void MakeAttention(Random& random, Attention& a, DType type, bool causal, bool with_limit) {
  PartMaker& maker = a.maker;
  Part& part = maker.part;
  part.skeleton = Skeleton::kAttention;
  const int64_t queries = Between(random, 0, 2) == 0 ? 1 : Between(random, 1, 20);
  maker.loops = {Between(random, 1, 2),  Between(random, 1, 4),  queries,
                 Between(random, 1, 70), Between(random, 1, 90), Between(random, 1, 70)};
  part.outer = 2;
  part.m = part.n = part.reduced = part.features = 1;
  part.scale = 0.3f;
  part.nan_to_zero = Between(random, 0, 1) == 0;
  if (Between(random, 0, 3) == 0) part.softcap = 2;
  part.acc_type = NaturalType(type);
  const bool grouped = Between(random, 0, 1) == 0;  // several query heads share keys and values
  auto order = [&](std::vector<int> loops) {
    if (grouped) loops.erase(loops.begin() + 1);
    return loops;
  };
  part.lhs = maker.Operand(type, Mode::kRead, RandomOrder(random, {0, 1, 2, 5}));
  const bool odd = Between(random, 0, 3) == 0;
  part.keys = a.keys = maker.Operand(type, Mode::kRead, odd ? order({0, 1, 5, 4}) : order({0, 1, 4, 5}));
  part.values = a.values = maker.Operand(type, Mode::kRead, odd ? order({0, 1, 3, 4}) : order({0, 1, 4, 3}));
  if (causal) {
    const DType mask = Between(random, 0, 1) == 0 ? DType::kBool : DType::kF32;
    part.mask = maker.Operand(mask, Mode::kRead, Thinned(random, {0, 1, 2, 4}));
  }
  if (with_limit) {
    part.limit = a.limit =
        maker.Operand(DType::kI64, Mode::kRead, Between(random, 0, 1) == 0 ? Range(2, 3) : Range(0, 1));
  }
  const uint16_t out = maker.Operand(type, Mode::kWrite, RandomOrder(random, {0, 1, 2, 3}));
  TapeMaker epilogue;
  epilogue.Store(out, type, epilogue.Add(TapeOp::kAcc, part.acc_type, 0));
  part.epilogue = maker.Keep(epilogue);
}

TEST(Attention, MatchesTheReferenceWithMasksLimitsAndGroupedHeads) {
  for (uint32_t seed = 0; seed < 60 && !testing::Test::HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    Attention a(&arena);
    const DType type = seed % 10 == 9 ? DType::kF64 : RandomFloat(random);
    const bool with_limit = Between(random, 0, 1) == 0;
    MakeAttention(random, a, type, Between(random, 0, 1) == 0, with_limit);
    Memory memory;
    memory.Randomise(a.maker, random);
    if (with_limit) {
      const int64_t keys = a.maker.loops[4];
      for (int64_t i = 0; i < a.maker.sizes[a.limit]; ++i) {
        scalar::Store<int64_t>(DType::kI64, memory.params[a.limit].data(), i, Between(random, 0, keys + 2));
      }
    }
    ExpectMatchesReference(a.maker, memory, "seed " + std::to_string(seed), {2e-4, 1e-4});
  }
}

TEST(Attention, DoesNotLookAtKeysAndValuesBeyondTheLimit) {
  for (uint32_t seed = 0; seed < 20 && !testing::Test::HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    Attention a(&arena);
    MakeAttention(random, a, DType::kF32, false, true);
    a.maker.part.nan_to_zero = true;
    Memory memory;
    memory.Randomise(a.maker, random);
    const int64_t limit = a.maker.loops[4] / 2;
    for (int64_t i = 0; i < a.maker.sizes[a.limit]; ++i) {
      scalar::Store<int64_t>(DType::kI64, memory.params[a.limit].data(), i, limit);
    }
    // Keys and values from the limit on are NaN: reading one spoils the result.
    const std::pair<uint16_t, int> regions[] = {{a.keys, 5}, {a.values, 3}};
    for (const auto& [o, feature] : regions) {
      const Operand& operand = a.maker.operands[o];
      for (int64_t i = 0; i < a.maker.sizes[o]; ++i) {
        const int64_t key = i / operand.strides[4] % a.maker.loops[4];
        const float nan = std::numeric_limits<float>::quiet_NaN();
        if (key >= limit) std::memcpy(memory.params[o].data() + i * 4, &nan, 4);
      }
      (void)feature;
    }
    ExpectMatchesReference(a.maker, memory, "seed " + std::to_string(seed), {2e-4, 1e-4});
  }
}

}  // namespace
}  // namespace rondo::test
