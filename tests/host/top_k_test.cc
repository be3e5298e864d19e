#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/host/driver_case.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

// Equal elements, infinities, NaN and both zeros come in their places' order.
TEST(TopK, MatchesTheReference) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI64,
                              DType::kU64, DType::kI32, DType::kI8,   DType::kU8};
  for (uint32_t seed = 0; seed < Seeds(80) && !testing::Test::HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    const DType type = kTypes[seed % std::size(kTypes)];
    const int64_t elements = Between(random, 1, seed % 4 == 0 ? 2000 : 90);
    maker.part.skeleton = Skeleton::kTopK;
    maker.part.combine = Between(random, 0, 1) == 0 ? Combine::kMax : Combine::kMin;
    maker.part.acc_type = TapeType::kI64;
    maker.part.outer = maker.part.m = maker.part.n = maker.part.reduced = 1;
    maker.loops = {Between(random, 1, 3), Between(random, 1, 5), Between(random, 1, elements), elements};
    maker.part.lhs = maker.Operand(type, Mode::kRead, RandomOrder(random, {0, 1, 3}));
    const DType places = Between(random, 0, 1) == 0 ? DType::kI64 : DType::kI32;
    maker.StoreAccumulators(maker.Operand(places, Mode::kWrite, RandomOrder(random, {0, 1, 2})),
                            TapeType::kI64);
    Memory memory;
    memory.Randomise(maker, random);
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const double odd[] = {kInf, -kInf, std::numeric_limits<double>::quiet_NaN(), -0.0};
    for (int64_t i = 0; IsFloat(type) && i < maker.sizes[0]; ++i) {
      const int64_t which = Between(random, 0, 15);
      if (which < 4) scalar::Store<double>(type, memory.params[0].data(), i, odd[which]);
    }
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed));
  }
}

}  // namespace
}  // namespace rondo::test
