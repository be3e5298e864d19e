#include <gtest/gtest.h>

#include <string>

#include "tests/host/driver_case.h"
#include "tests/host/random_layout.h"
#include "tests/host/reference.h"

namespace rondo::test {
namespace {

// Compares on random memory; failures name the seed.
void ExpectMatches(PartMaker& maker, int seed, Random& random) {
  Memory memory;
  memory.Randomise(maker, random);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed));
}

// Runs on the host driver with instruction set `isa`.
void RunOn(uint32_t isa, const Kernel& kernel, Memory* memory) {
  HostOptions options;
  options.max_isa = isa;
  HostFixture host(options);
  Module* module = host.Load(kernel);
  ASSERT_NE(module, nullptr);
  EXPECT_TRUE(host.Launch(module, memory).ok());
  host.device->DestroyModule(module);
}

TEST(Reference, EndsTheTestWhereAnAccessIsOutside) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {11};
  const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0}),
                 out = maker.Operand(DType::kF32, Mode::kWrite, {0});
  maker.sizes[in] = 10;
  TapeMaker tape;
  tape.Store(out, DType::kF32, tape.Load(in, DType::kF32));
  maker.part.body = maker.Keep(tape);
  Memory memory;
  memory.Resize(maker);
  EXPECT_DEATH(RunReference(maker.Make(), memory.Spans()), "test_kernel.*operand 0, element 10 of 10");
}

// A register computed from `inputs` by a few random instructions that keep values moderate.
uint16_t RandomExpression(Random& random, TapeMaker& tape, std::vector<uint16_t> pool) {
  const std::vector<TapeOp> float_unary = {TapeOp::kNeg,  TapeOp::kAbs,     TapeOp::kSign,  TapeOp::kFloor,
                                           TapeOp::kCeil, TapeOp::kRound,   TapeOp::kTrunc, TapeOp::kTanh,
                                           TapeOp::kErf,  TapeOp::kSigmoid, TapeOp::kSin,   TapeOp::kCos};
  const std::vector<TapeOp> binary = {TapeOp::kAdd, TapeOp::kSub, TapeOp::kMul, TapeOp::kMin, TapeOp::kMax};
  for (int i = 0; i < 6; ++i) {
    const uint16_t a = pool[static_cast<size_t>(Between(random, 0, static_cast<int64_t>(pool.size()) - 1))];
    uint16_t b = pool[static_cast<size_t>(Between(random, 0, static_cast<int64_t>(pool.size()) - 1))];
    const TapeType type = tape.TypeOf(a);
    b = tape.Cast(b, type, type == TapeType::kF32 ? DType::kF32 : DType::kI64);
    switch (Between(random, 0, 3)) {
      case 0:
        if (type == TapeType::kF32) {
          pool.push_back(tape.Unary(float_unary[static_cast<size_t>(Between(random, 0, 11))], a));
          break;
        }
        [[fallthrough]];
      case 1: pool.push_back(tape.Binary(binary[static_cast<size_t>(Between(random, 0, 4))], a, b)); break;
      case 2: {
        const uint16_t less = tape.Add(TapeOp::kLess, TapeType::kI64, 0, a, b);
        pool.push_back(tape.Add(TapeOp::kSelect, type, 0, less, a, b));
        break;
      }
      default: pool.push_back(tape.Add(TapeOp::kFma, type, 0, a, b, a));
    }
    // Keep magnitudes down: x -> x / (1 + |x|), or x mod 64.
    const uint16_t x = pool.back();
    if (type == TapeType::kF32) {
      pool.push_back(tape.Binary(TapeOp::kDiv, x,
                                 tape.Binary(TapeOp::kAdd, tape.Const(1), tape.Unary(TapeOp::kAbs, x))));
    } else {
      pool.push_back(tape.Binary(TapeOp::kMod, x, tape.ConstInt(64)));
    }
  }
  return pool.back();
}

TEST(Map, MatchesTheReferenceOnRandomTapesAndLayouts) {
  constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kF16,  DType::kBF16, DType::kI64, DType::kI32,
                              DType::kI8,  DType::kU8,  DType::kBool, DType::kU16,  DType::kI16, DType::kU32};
  for (int seed = 0; seed < 60; ++seed) {
    Random random(static_cast<uint32_t>(seed));
    Arena arena;
    PartMaker maker(&arena);
    const int rank = static_cast<int>(Between(random, 1, 5));
    maker.loops = RandomExtents(random, rank, 3000);
    TapeMaker tape;
    std::vector<uint16_t> inputs;
    for (int64_t i = Between(random, 1, 3); i > 0; --i) {
      const DType type = kTypes[Between(random, 0, 11)];
      const uint16_t o = maker.Operand(
          type, Mode::kRead, Thinned(random, RandomOrder(random, Range(0, rank))), Between(random, 0, 5));
      inputs.push_back(tape.Load(o, type));
    }
    inputs.push_back(
        tape.Add(TapeOp::kIndex, TapeType::kI64, static_cast<uint16_t>(Between(random, 0, rank - 1))));
    for (int64_t i = Between(random, 1, 2); i > 0; --i) {
      const DType type = kTypes[Between(random, 0, 7)];
      const uint16_t o =
          maker.Operand(type, Mode::kWrite, RandomOrder(random, Range(0, rank)), Between(random, 0, 5));
      tape.Store(o, type, RandomExpression(random, tape, inputs));
    }
    maker.part.body = maker.Keep(tape);
    Memory memory;
    memory.Randomise(maker, random);
    // Rounding and comparisons can turn the last bit of a transcendental function into a whole step. With
    // these seeds no value lies on such an edge.
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

// Compares a unary function over a range with the C library in double.
void ExpectAccurate(TapeOp op, float low, float high, double (*exact)(double), double relative,
                    double absolute) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {40000};
  const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0});
  TapeMaker tape;
  tape.Store(out, DType::kF32, tape.Unary(op, tape.Load(in, DType::kF32)));
  maker.part.body = maker.Keep(tape);
  const Kernel kernel = maker.Make();
  Memory memory;
  memory.Resize(maker);
  float* x = reinterpret_cast<float*>(memory.params[0].data());
  for (int i = 0; i < 40000; ++i) x[i] = low + (high - low) * static_cast<float>(i) / 39999.0f;
  for (uint32_t isa = 0; isa < 3; ++isa) {
    RunOn(isa, kernel, &memory);
    const float* y = reinterpret_cast<const float*>(memory.params[1].data());
    for (int i = 0; i < 40000; ++i) {
      const double want = exact(static_cast<double>(x[i]));
      const double most = std::fabs(want) * relative + absolute;
      ASSERT_NEAR(want, static_cast<double>(y[i]), most) << "op " << static_cast<int>(op) << " at " << x[i];
    }
  }
}

TEST(Map, VectorFunctionsAreAccurateToAMillionth) {
  ExpectAccurate(TapeOp::kExp, -87, 88, std::exp, 1e-6, 0);
  ExpectAccurate(TapeOp::kExp, -103, -87, std::exp, 1e-6, 2e-45);
  ExpectAccurate(TapeOp::kLog, 1e-30f, 4, std::log, 1e-6, 1e-7);
  ExpectAccurate(TapeOp::kLog, 1e-44f, 1e-38f, std::log, 1e-6, 0);
  ExpectAccurate(TapeOp::kTanh, -10, 10, std::tanh, 1e-6, 0);
  ExpectAccurate(TapeOp::kErf, -5, 5, std::erf, 1e-6, 0);
  ExpectAccurate(
      TapeOp::kSigmoid, -80, 40, [](double x) { return 1 / (1 + std::exp(-x)); }, 1e-6, 0);
  ExpectAccurate(TapeOp::kSin, -20, 20, std::sin, 1e-6, 2e-7);
  ExpectAccurate(TapeOp::kCos, -20, 20, std::cos, 1e-6, 2e-7);
  ExpectAccurate(TapeOp::kSin, 8000, 9000, std::sin, 1e-6, 2e-6);
  ExpectAccurate(TapeOp::kCos, 1e6f, 2e6f, std::cos, 1e-6, 2e-6);
}

TEST(Map, SpecialValuesPassThroughVectorFunctions) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    TapeOp op;
    float in, out;
  };
  const Case cases[] = {
      {TapeOp::kExp, inf, inf},    {TapeOp::kExp, -inf, 0},      {TapeOp::kExp, nan, nan},
      {TapeOp::kExp, 0, 1},        {TapeOp::kLog, inf, inf},     {TapeOp::kLog, 0, -inf},
      {TapeOp::kLog, -1, nan},     {TapeOp::kLog, nan, nan},     {TapeOp::kTanh, inf, 1},
      {TapeOp::kTanh, -inf, -1},   {TapeOp::kTanh, nan, nan},    {TapeOp::kErf, inf, 1},
      {TapeOp::kErf, -inf, -1},    {TapeOp::kErf, nan, nan},     {TapeOp::kSigmoid, inf, 1},
      {TapeOp::kSigmoid, -inf, 0}, {TapeOp::kSigmoid, nan, nan}, {TapeOp::kSin, inf, nan},
      {TapeOp::kCos, nan, nan},    {TapeOp::kRound, 2.5f, 2},    {TapeOp::kRound, -1.5f, -2},
      {TapeOp::kSign, nan, nan},   {TapeOp::kSign, -3, -1},      {TapeOp::kLog, 1, 0},
  };
  for (const Case& c : cases) {
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {19};
    const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {});
    const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0});
    TapeMaker tape;
    tape.Store(out, DType::kF32, tape.Unary(c.op, tape.Load(in, DType::kF32)));
    maker.part.body = maker.Keep(tape);
    Memory memory;
    memory.Resize(maker);
    std::memcpy(memory.params[0].data(), &c.in, 4);
    const Kernel kernel = maker.Make();
    for (uint32_t isa = 0; isa < 3; ++isa) {
      RunOn(isa, kernel, &memory);
      for (int i = 0; i < 19; ++i) {
        const float got = scalar::Load<float>(DType::kF32, memory.params[1].data(), i);
        EXPECT_TRUE(got == c.out || (got != got && c.out != c.out))
            << "op " << static_cast<int>(c.op) << " of " << c.in << " gave " << got << ", instruction set "
            << isa;
      }
    }
  }
}

TEST(Map, GuardsPadAndDropOnRandomShapes) {
  for (int seed = 0; seed < 40; ++seed) {
    Random random(static_cast<uint32_t>(seed));
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {Between(random, 1, 5), Between(random, 1, 40), Between(random, 1, 300)};
    // out[i, j, k] = in[i, j - 2, 2k - 3] or 9 outside a [i, 20, 100] input.
    const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0});
    maker.operands[in].strides = arena.Copy(std::vector<int64_t>{20 * 100, 0, 0});
    maker.sizes[0] = maker.loops[0] * 2000;
    maker.operands[in].absent = 9;
    Guard guards[2];
    guards[0] = {100, -2, 20, arena.Copy(std::vector<int64_t>{0, 1, 0})};
    guards[1] = {1, -3, 100, arena.Copy(std::vector<int64_t>{0, 0, 2})};
    maker.operands[in].guards = arena.Copy(std::vector<Guard>(guards, guards + 2));
    const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, RandomOrder(random, {0, 1, 2}));
    // If the seed is odd, a guard on the write drops every other output column.
    if (seed % 2 == 1) {
      Guard drop = {0, -static_cast<int64_t>(seed), 50, arena.Copy(std::vector<int64_t>{0, 0, 1})};
      maker.operands[out].guards = arena.Copy(std::vector<Guard>{drop});
    }
    TapeMaker tape;
    tape.Store(out, DType::kF32, tape.Load(in, DType::kF32));
    maker.part.body = maker.Keep(tape);
    ExpectMatches(maker, seed, random);
    if (HasFatalFailure()) return;
  }
}

// Padding wider than a tile: some tiles lie entirely before or after the existing elements.
TEST(Map, GuardsFarOutsideAreAbsentWholeTilesLong) {
  for (int seed = 0; seed < 8; ++seed) {
    Random random(static_cast<uint32_t>(seed));
    Arena arena;
    PartMaker maker(&arena);
    maker.loops.push_back(1700);
    static constexpr int64_t kSteps[] = {0, 1, -1};
    const Span<const int64_t> still(kSteps, 1), forwards(kSteps + 1, 1), backwards(kSteps + 2, 1);
    const uint16_t all[] = {maker.Operand(DType::kF32, Mode::kRead, {0}),
                            maker.Operand(DType::kF32, Mode::kRead, {0}),
                            maker.Operand(DType::kF32, Mode::kRead, {0})};
    for (uint16_t in : all) {  // each is padded by 700 in front, forwards or backwards
      const bool far = in == all[seed % 3], back = seed >= 4;
      maker.operands[in].strides = still;
      Guard guard = {1, far ? -700 : -1, 40, forwards};
      if (far && back) guard = {1, 1000, 40, backwards};
      Span<Guard> guards = arena.New<Guard>(1);
      guards[0] = guard;
      maker.operands[in].guards = guards;
      maker.operands[in].absent = in + 1;
      maker.sizes[in] = 40;
    }
    const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0});
    TapeMaker tape;
    const uint16_t a = tape.Load(all[0], DType::kF32), b = tape.Load(all[1], DType::kF32),
                   c = tape.Load(all[2], DType::kF32);
    tape.Store(out, DType::kF32, tape.Binary(TapeOp::kSub, tape.Binary(TapeOp::kMul, a, b), c));
    maker.part.body = maker.Keep(tape);
    ExpectMatches(maker, seed, random);
    if (HasFatalFailure()) return;
  }
}

TEST(Map, GathersAndScattersThroughIndicesWithFaultsOutsideTheRange) {
  for (int seed = 0; seed < 40; ++seed) {
    Random random(static_cast<uint32_t>(seed));
    Arena arena;
    PartMaker maker(&arena);
    const int64_t rows = Between(random, 1, 30), width = Between(random, 1, 300), extent = 17;
    maker.loops = {rows, width};
    const bool scatter = seed % 2 == 1, per_element = seed % 4 >= 2;
    const DType index_type = seed % 3 == 0 ? DType::kI32 : DType::kI64;
    // The index depends on the row, or on every element.
    const uint16_t index = maker.Operand(index_type, Mode::kRead, per_element ? Range(0, 2) : Range(0, 1));
    const uint16_t plain = maker.Operand(DType::kF32, scatter ? Mode::kRead : Mode::kWrite, {0, 1});
    const uint16_t indexed = maker.Operand(DType::kF32, scatter ? Mode::kWrite : Mode::kRead, {1});
    maker.sizes[2] = extent * width;
    Indirect indirect;
    indirect.operand = index;
    indirect.wrap = seed % 5 != 0;
    indirect.fault = seed % 7 != 0;
    indirect.stride = width;
    indirect.extent = extent;
    maker.operands[indexed].indirects = arena.Copy(std::vector<Indirect>{indirect});
    maker.part.sequential = scatter;
    TapeMaker tape;
    tape.Store(scatter ? indexed : plain, DType::kF32, tape.Load(scatter ? plain : indexed, DType::kF32));
    maker.part.body = maker.Keep(tape);
    Memory memory;
    memory.Randomise(maker, random);
    const int64_t reach = seed % 3 == 1 ? extent : extent + 2;  // some indices are out of range
    for (int64_t i = 0; i < maker.sizes[0]; ++i) {
      scalar::Store<int64_t>(index_type, memory.params[0].data(), i,
                             Between(random, seed % 3 == 1 ? 0 : -2, reach - 1));
    }
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

TEST(Map, SequentialAddsIntoCoincidingElementsInOrder) {
  for (int64_t width : {1, 7, 300}) {
    Random random(5);
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {50, width};
    const uint16_t index = maker.Operand(DType::kI64, Mode::kRead, {0});
    const uint16_t value = maker.Operand(DType::kF32, Mode::kRead, {0, 1});
    const uint16_t sum = maker.Operand(DType::kF32, Mode::kReadWrite, {1});
    maker.sizes[2] = 5 * width;
    Indirect indirect;
    indirect.operand = index;
    indirect.stride = width;
    indirect.extent = 5;
    maker.operands[sum].indirects = arena.Copy(std::vector<Indirect>{indirect});
    maker.part.sequential = true;
    TapeMaker tape;
    tape.Store(sum, DType::kF32,
               tape.Binary(TapeOp::kAdd, tape.Load(sum, DType::kF32), tape.Load(value, DType::kF32)));
    maker.part.body = maker.Keep(tape);
    Memory memory;
    memory.Randomise(maker, random);
    for (int i = 0; i < 50; ++i)
      scalar::Store<int64_t>(DType::kI64, memory.params[0].data(), i, Between(random, 0, 4));
    ExpectMatchesReference(maker, memory, "width " + std::to_string(width));
  }
}

// The second index takes the register of the first, next to a sum that is read later; a tile is full.
TEST(Map, AnIndexThatRepeatsWithinATileLeavesTheRegisterBesideItAlone) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {4096, 4};
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1});
  TapeMaker tape;
  const auto index = [&] {
    return tape.Cast(tape.Add(TapeOp::kIndex, TapeType::kI64, 1), TapeType::kF32, DType::kF32);
  };
  const uint16_t first = tape.Binary(TapeOp::kAdd, index(), tape.Const(7));
  tape.Store(out, DType::kF32,
             tape.Binary(TapeOp::kMul, first, tape.Binary(TapeOp::kAdd, index(), tape.Const(1))));
  maker.part.body = maker.Keep(tape);
  Memory memory;
  memory.Resize(maker);
  ExpectMatchesReference(maker, memory, "");
}

// Also by several threads, with the same bits.
TEST(Map, CombinesAllPointsIntoOneNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const TapeOp op : {TapeOp::kCombineMax, TapeOp::kCombineMin}) {
    for (const float special : {0.0f, -0.0f, kInfinity, -kInfinity, std::nanf("")}) {
      for (const int64_t width : {1, 7, 5000}) {
        Random random(7);
        Arena arena;
        PartMaker maker(&arena);
        maker.loops = {50, width};
        const uint16_t value = maker.Operand(DType::kF32, Mode::kRead, {0, 1});
        const uint16_t copy = maker.Operand(DType::kF32, Mode::kWrite, {1, 0});
        const uint16_t cell = maker.Operand(DType::kF32, Mode::kReadWrite, {});
        TapeMaker tape;
        const uint16_t x = tape.Load(value, DType::kF32);
        tape.Store(copy, DType::kF32, x);
        tape.Add(op, TapeType::kF32, cell, x);
        maker.part.body = maker.Keep(tape);
        Memory memory;
        memory.Randomise(maker, random);
        scalar::Store<float>(DType::kF32, memory.params[0].data(), 49 * width, special);
        scalar::Store<float>(DType::kF32, memory.params[2].data(), 0, 0);
        ExpectMatchesReference(maker, memory, std::to_string(special) + ", width " + std::to_string(width));
      }
    }
  }
}

}  // namespace
}  // namespace rondo::test
