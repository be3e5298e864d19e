#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/driver_case.h"
#include "tests/host/random_layout.h"
#include "tests/host/stages.h"

namespace rondo::test {
namespace {

// Random outer and reduced loops.
void MakeLoops(Random& random, PartMaker& maker) {
  const int outer = static_cast<int>(Between(random, 0, 3)),
            reduced = static_cast<int>(Between(random, 1, 2));
  maker.loops = RandomExtents(random, outer, 200);
  for (int64_t e : RandomExtents(random, reduced, Between(random, 0, 3) == 0 ? 2000 : 60))
    maker.loops.push_back(e);
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = static_cast<uint8_t>(outer);
  maker.part.reduced = static_cast<uint8_t>(reduced);
}

TEST(Reduction, SoftmaxMatchesTheReference) {
  for (int seed = 0; seed < 30; ++seed) {
    Random random(static_cast<uint32_t>(seed));
    Arena arena;
    PartMaker maker(&arena);
    MakeLoops(random, maker);
    const int rank = static_cast<int>(maker.loops.size());
    const DType type = RandomFloat(random);
    const uint16_t in = maker.Operand(type, Mode::kRead, RandomOrder(random, Range(0, rank)));
    const uint16_t out = maker.Operand(type, Mode::kWrite, RandomOrder(random, Range(0, rank)));
    TapeMaker most, sum, store;
    most.Add(TapeOp::kReduceMax, TapeType::kF32, 0, most.Load(in, type));
    const uint16_t shifted =
        sum.Binary(TapeOp::kSub, sum.Load(in, type), sum.Add(TapeOp::kScalar, TapeType::kF32, 0));
    const uint16_t e = sum.Unary(TapeOp::kExp, shifted);
    sum.Add(TapeOp::kKeep, TapeType::kF32, 0, e);
    sum.Add(TapeOp::kReduceSum, TapeType::kF32, 1, e);
    TapeMaker invert;
    invert.Add(TapeOp::kSetScalar, TapeType::kF32, 2,
               invert.Unary(TapeOp::kReciprocal, invert.Add(TapeOp::kScalar, TapeType::kF32, 1)));
    store.Store(out, type,
                store.Binary(TapeOp::kMul, store.Add(TapeOp::kKept, TapeType::kF32, 0),
                             store.Add(TapeOp::kScalar, TapeType::kF32, 2)));
    maker.part.scalars = 3;
    maker.part.kept = 1;
    KeepStages(maker, {{false, most}, {false, sum}, {true, invert}, {false, store}});
    Memory memory;
    memory.Randomise(maker, random);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(Reduction, SumsProductsAndExtremesOfEveryTypeMatchTheReference) {
  constexpr TapeOp kOps[] = {TapeOp::kReduceSum, TapeOp::kReduceProd,   TapeOp::kReduceMax,
                             TapeOp::kReduceMin, TapeOp::kReduceArgMax, TapeOp::kReduceArgMin};
  constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kI64, DType::kI8, DType::kU8, DType::kBF16};
  for (int seed = 0; seed < 72; ++seed) {
    Random random(static_cast<uint32_t>(seed));
    Arena arena;
    PartMaker maker(&arena);
    MakeLoops(random, maker);
    const int rank = static_cast<int>(maker.loops.size()), outer = maker.part.outer;
    const TapeOp op = kOps[seed % 6];
    const DType type = kTypes[seed / 6 % 6];
    const bool arg = op >= TapeOp::kReduceArgMax;
    const uint16_t in = maker.Operand(type, Mode::kRead, RandomOrder(random, Range(0, rank)));
    const DType result = arg ? DType::kI64 : NaturalType(type) == TapeType::kF32 ? DType::kF32 : DType::kI64;
    const uint16_t out = maker.Operand(result, Mode::kWrite, Range(0, outer));
    TapeMaker reduce, store;
    uint16_t x = reduce.Load(in, type);
    if (op == TapeOp::kReduceProd) {  // keep products finite
      x = reduce.Unary(TapeOp::kSign, x);
    }
    reduce.Add(op, reduce.TypeOf(x), 0, x);
    reduce.list.back().imm.i = seed % 2;
    const TapeType scalar_type = arg ? TapeType::kI64 : NaturalType(type);
    store.Store(out, result,
                store.Cast(store.Add(TapeOp::kScalar, scalar_type, 0), NaturalType(result), result));
    maker.part.scalars = 1;
    KeepStages(maker, {{false, reduce}, {true, store}});
    Memory memory;
    memory.Randomise(maker, random);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

// NaN and infinities anywhere in a row, also among the last elements. The reduced values are also stored.
TEST(Reduction, ExtremesKnowWhatIsInfiniteOrNoNumber) {
  constexpr float kStrange[] = {NAN, HUGE_VALF, -HUGE_VALF};
  for (uint32_t seed = 0; seed < 48; ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {3, Between(random, 1, 9), Between(random, 1, 150)};
    maker.part.skeleton = Skeleton::kReduction;
    maker.part.outer = 1;
    maker.part.reduced = 2;
    const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, RandomOrder(random, {0, 1, 2}));
    const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0});
    TapeMaker reduce, store;
    const uint16_t x = reduce.Load(in, DType::kF32);
    if (Between(random, 0, 1) == 0)
      reduce.Store(maker.Operand(DType::kF32, Mode::kWrite, RandomOrder(random, {0, 1, 2})), DType::kF32, x);
    reduce.Add(seed % 2 == 0 ? TapeOp::kReduceMax : TapeOp::kReduceMin, TapeType::kF32, 0, x);
    store.Store(out, DType::kF32, store.Add(TapeOp::kScalar, TapeType::kF32, 0));
    maker.part.scalars = 1;
    KeepStages(maker, {{false, reduce}, {true, store}});
    Memory memory;
    memory.Randomise(maker, random);
    const int64_t count = static_cast<int64_t>(memory.params[0].size() / sizeof(float));
    const float strange = kStrange[seed / 2 % 3];
    if (seed >= 6)
      std::memcpy(&memory.params[0][static_cast<size_t>(4 * Between(random, 0, count - 1))], &strange, 4);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
  }
}

TEST(Reduction, LongF32SumsKeepTheirAccuracy) {
  Arena arena;
  PartMaker maker(&arena);
  constexpr int64_t kLength = 1 << 22;
  maker.loops = {kLength};
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.reduced = 1;
  const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {});
  TapeMaker reduce, store;
  reduce.Add(TapeOp::kReduceSum, TapeType::kF32, 0, reduce.Load(in, DType::kF32));
  store.Store(out, DType::kF32, store.Add(TapeOp::kScalar, TapeType::kF32, 0));
  maker.part.scalars = 1;
  KeepStages(maker, {{false, reduce}, {true, store}});
  const Kernel kernel = maker.Make();
  Memory memory;
  memory.Resize(maker);
  double want = 0;
  for (int64_t i = 0; i < kLength; ++i) {
    const float v = 1.0f + 1e-3f * static_cast<float>(i % 7);
    std::memcpy(memory.params[0].data() + i * 4, &v, 4);
    want += static_cast<double>(v);
  }
  HostFixture host;
  Module* module = host.Load(kernel);
  ASSERT_TRUE(host.Launch(module, &memory).ok());
  host.device->DestroyModule(module);
  const double got = static_cast<double>(scalar::Load<float>(DType::kF32, memory.params[1].data(), 0));
  EXPECT_NEAR(got, want, want * 1e-6);
}

// A kernel whose kept rows need more memory than exists, with sizes whose products overflow 64 bits, is
// refused with any number of threads.
TEST(Reduction, ScratchBeyondAllMemoryIsRefused) {
  for (const std::vector<int64_t>& loops : {std::vector<int64_t>{8, int64_t{1} << 49, 2},
                                            {1, int64_t{1} << 27, 1},
                                            {4, int64_t{1} << 52, 1},
                                            {1, int64_t{1} << 48, 16}}) {
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = loops;
    maker.part.skeleton = Skeleton::kReduction;
    maker.part.outer = 1;
    maker.part.reduced = 2;
    maker.part.kept = kMaxSlots;
    maker.part.scalars = 1;
    const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {}),
                   out = maker.Operand(DType::kF32, Mode::kWrite, {0});
    TapeMaker keep, store;
    const uint16_t x = keep.Load(in, DType::kF32);
    for (uint16_t slot = 0; slot < kMaxSlots; ++slot) keep.Add(TapeOp::kKeep, TapeType::kF32, slot, x);
    keep.Add(TapeOp::kReduceSum, TapeType::kF32, 0, x);
    store.Store(out, DType::kF32, store.Add(TapeOp::kScalar, TapeType::kF32, 0));
    KeepStages(maker, {{false, keep}, {true, store}});
    PlanData plan;
    const Kernel kernel = maker.Make();
    plan.kernels = Span<const Kernel>(&kernel, 1);
    for (uint32_t threads : {1u, 16u, 64u, 256u}) {
      HostOptions options;
      options.threads = threads;
      Result<Driver*> driver = CreateHostDriver(options);
      ASSERT_TRUE(driver.ok()) << driver.status().message();
      Result<Device*> device = (*driver)->Open(0);
      ASSERT_TRUE(device.ok());
      const Result<Module*> module = (*device)->LoadModule(plan);
      ASSERT_FALSE(module.ok());
      EXPECT_EQ(module.status().code(), Code::kUnsupported);
      EXPECT_NE(std::string(module.status().message()).find("4 GiB of scratch"), std::string::npos)
          << module.status().message();
      DestroyHostDriver(*driver);
    }
  }
}

}  // namespace
}  // namespace rondo::test
