#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/host/driver_case.h"
#include "tests/host/packed_part.h"
#include "tests/host/prepared.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

std::vector<int> Groups(const std::vector<int>& first, std::initializer_list<int> groups) {
  std::vector<int> loops;
  for (int g : groups) {
    for (int d = first[static_cast<size_t>(g)]; d < first[static_cast<size_t>(g) + 1]; ++d)
      loops.push_back(d);
  }
  return loops;
}

// Stores acc_0 + 0.5 * acc_1 + ... + bias, sometimes after tanh.
void MakeEpilogue(Random& random, PartMaker& maker, int accumulators, TapeType type, uint16_t bias,
                  DType bias_type, uint16_t out, DType out_type) {
  TapeMaker tape;
  uint16_t x = tape.Add(TapeOp::kAcc, type, 0);
  for (int j = 1; j < accumulators; ++j) {
    x = tape.Binary(TapeOp::kAdd, x, tape.Add(TapeOp::kAcc, type, static_cast<uint16_t>(j)));
  }
  const DType natural = type == TapeType::kF32   ? DType::kF32
                        : type == TapeType::kF64 ? DType::kF64
                                                 : DType::kI64;
  x = tape.Binary(TapeOp::kAdd, x, tape.Cast(tape.Load(bias, bias_type), type, natural));
  if (type == TapeType::kF32 && Between(random, 0, 1) == 0) {
    x = tape.Unary(TapeOp::kTanh, tape.Binary(TapeOp::kMul, x, tape.Const(0.1f)));
  }
  if (type == TapeType::kF32 && Between(random, 0, 1) == 0) {  // limits, which the sum before may absorb
    x = tape.Binary(TapeOp::kMax, x, tape.Const(-2));
    if (Between(random, 0, 1) == 0) x = tape.Binary(TapeOp::kMin, tape.Const(3), x);
  }
  tape.Store(out, out_type, x);
  maker.part.epilogue = maker.Keep(tape);
}

void RandomContraction(uint32_t seed, DType forced, int64_t most_m, int64_t most_n, int64_t most_k) {
  Random random(seed);
  Arena arena;
  PartMaker maker(&arena);
  Part& part = maker.part;
  part.skeleton = Skeleton::kMatMul;
  std::vector<int> first = {0};
  const int64_t points[4] = {Between(random, 1, 4), Between(random, 1, most_m), Between(random, 1, most_n),
                             Between(random, 1, most_k)};
  uint8_t* counts[4] = {&part.outer, &part.m, &part.n, &part.reduced};
  for (int g = 0; g < 4; ++g) {
    *counts[g] = static_cast<uint8_t>(Between(random, g == 3 ? 1 : 0, 2));
    for (int64_t e : RandomExtents(random, *counts[g], points[g])) maker.loops.push_back(e);
    first.push_back(static_cast<int>(maker.loops.size()));
  }
  const DType lhs_type = forced == DType::kF32 ? RandomFloat(random) : forced;
  const DType rhs_type = forced == DType::kF32 ? RandomFloat(random) : forced;
  part.acc_type = NaturalType(forced);
  part.lhs = maker.Operand(lhs_type, Mode::kRead, RandomOrder(random, Groups(first, {0, 1, 3})), 3);
  const int rhs_count = static_cast<int>(Between(random, 1, 3));
  std::vector<uint16_t> rhs;
  for (int j = 0; j < rhs_count; ++j) {
    std::vector<int> order = Between(random, 0, 1) == 0 ? Groups(first, {0, 3, 2}) : Groups(first, {0, 2, 3});
    if (Between(random, 0, 2) == 0)
      order.erase(order.begin(), order.begin() + part.outer);  // the batch shares it
    rhs.push_back(maker.Operand(rhs_type, Mode::kRead,
                                Between(random, 0, 4) == 0 ? RandomOrder(random, order) : order, 5));
  }
  part.rhs = arena.Copy(rhs);
  if (forced == DType::kF32 && Between(random, 0, 1) == 0) {
    TapeMaker prologue;  // x * 0.5 + scale[k]
    const uint16_t scale = maker.Operand(DType::kF32, Mode::kRead, Groups(first, {3}));
    const uint16_t x = prologue.Load(part.lhs, lhs_type);
    const uint16_t y = prologue.Add(TapeOp::kFma, TapeType::kF32, 0, x, prologue.Const(0.5f),
                                    prologue.Load(scale, DType::kF32));
    prologue.Add(TapeOp::kYield, TapeType::kF32, 0, y);
    part.prologue = maker.Keep(prologue);
  }
  const DType out_type = forced == DType::kF32  ? RandomFloat(random)
                         : forced == DType::kI8 ? DType::kI32
                                                : forced;
  const uint16_t bias = maker.Operand(out_type, Mode::kRead, Thinned(random, Groups(first, {0, 1, 2})));
  const uint16_t out =
      maker.Operand(out_type, Mode::kWrite, RandomOrder(random, Groups(first, {0, 1, 2})), 7);
  MakeEpilogue(random, maker, rhs_count, part.acc_type, bias, out_type, out, out_type);
  Memory memory;
  memory.Randomise(maker, random);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {1e-4, 1e-3});
}

TEST(Contraction, OfManyRowsMatchesTheReference) {
  for (uint32_t seed = 0; seed < 40 && !testing::Test::HasFatalFailure(); ++seed) {
    RandomContraction(seed, DType::kF32, 60, 100, 60);
  }
}
TEST(Contraction, OfAFewRowsMatchesTheReference) {
  for (uint32_t seed = 0; seed < 50 && !testing::Test::HasFatalFailure(); ++seed) {
    RandomContraction(seed, DType::kF32, 8, 300, 100);
  }
}
TEST(Contraction, OfAFewRowsWithAMatrixLargerThanTheCacheMatchesTheReference) {
  for (const bool by_columns : {false, true}) {
    for (int64_t m : {1, 3, 8}) {
      Random random(static_cast<uint32_t>(m));
      Arena arena;
      PartMaker maker(&arena);
      maker.loops = {m, 700, 503};
      maker.part.skeleton = Skeleton::kMatMul;
      maker.part.m = maker.part.n = maker.part.reduced = 1;
      maker.part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 2});
      const std::vector<int> order = by_columns ? std::vector<int>{1, 2} : std::vector<int>{2, 1};
      maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, order)});
      const uint16_t bias = maker.Operand(DType::kF32, Mode::kRead, {1});
      const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1});
      MakeEpilogue(random, maker, 1, TapeType::kF32, bias, DType::kF32, out, DType::kF32);
      Memory memory;
      memory.Randomise(maker, random);
      ExpectMatchesReference(maker, memory, std::to_string(m) + " rows", {1e-4, 1e-3});
    }
  }
}
// Panels of B are kept from one block of rows to the next, but not for the next of the outer points.
TEST(Contraction, OfSeveralBlocksOfRowsMatchesTheReference) {
  for (const std::vector<int64_t>& loops :
       {std::vector<int64_t>{2, 240, 260, 20}, {2, 240, 24, 260}, {3, 500, 100, 9}}) {
    for (const bool by_columns : {false, true}) {
      Random random(static_cast<uint32_t>(loops[1]));
      Arena arena;
      PartMaker maker(&arena);
      maker.loops = loops;
      maker.part.skeleton = Skeleton::kMatMul;
      maker.part.outer = maker.part.m = maker.part.n = maker.part.reduced = 1;
      maker.part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 1, 3});
      const std::vector<int> order = by_columns ? std::vector<int>{0, 2, 3} : std::vector<int>{0, 3, 2};
      const uint16_t one = maker.Operand(DType::kF32, Mode::kRead, order),
                     other = maker.Operand(DType::kF32, Mode::kRead, order);
      maker.part.rhs = arena.Copy(std::vector<uint16_t>{one, other});
      const uint16_t bias = maker.Operand(DType::kF32, Mode::kRead, {2});
      const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1, 2});
      MakeEpilogue(random, maker, 2, TapeType::kF32, bias, DType::kF32, out, DType::kF32);
      Memory memory;
      memory.Randomise(maker, random);
      ExpectMatchesReference(maker, memory, std::to_string(loops[2]) + " columns", {1e-4, 1e-3});
    }
  }
}

// An epilogue that reads and writes memory in place runs row by row, or a few rows at a time, without its
// tape.
TEST(Contraction, WithAnEpilogueInPlaceMatchesTheReference) {
  for (const int64_t n : {16, 24, 40, 72, 100, 128, 144, 200, 272, 300}) {
    for (const std::vector<int>& layout : {std::vector<int>{0, 1, 2}, {1, 0, 2}}) {
      Random random(static_cast<uint32_t>(n));
      Arena arena;
      PartMaker maker(&arena);
      maker.loops = {11, 13, n, 20};
      maker.part.skeleton = Skeleton::kMatMul;
      maker.part.m = 2;
      maker.part.n = maker.part.reduced = 1;
      maker.part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 1, 3});
      maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, {3, 2})});
      const uint16_t bias = maker.Operand(DType::kF32, Mode::kRead, {2}),
                     added = maker.Operand(DType::kF32, Mode::kRead, layout),
                     out = maker.Operand(DType::kF32, Mode::kWrite, layout);
      TapeMaker tape;
      uint16_t x =
          tape.Binary(TapeOp::kAdd, tape.Add(TapeOp::kAcc, TapeType::kF32, 0), tape.Load(bias, DType::kF32));
      x = tape.Binary(TapeOp::kMul, x, tape.Binary(TapeOp::kMax, x, tape.Const(-2)));
      tape.Store(out, DType::kF32, tape.Binary(TapeOp::kAdd, x, tape.Load(added, DType::kF32)));
      maker.part.epilogue = maker.Keep(tape);
      Memory memory;
      memory.Randomise(maker, random);
      ExpectMatchesReference(maker, memory, std::to_string(n) + " columns", {1e-4, 1e-3});
    }
  }
}

TEST(Contraction, OverALongSumMatchesTheReference) {
  for (uint32_t seed = 0; seed < 12 && !testing::Test::HasFatalFailure(); ++seed) {
    RandomContraction(seed, DType::kF32, 20, 20, 1500);
  }
}
TEST(Contraction, OfDoublesAndIntegersMatchesTheReference) {
  for (uint32_t seed = 0; seed < 24 && !testing::Test::HasFatalFailure(); ++seed) {
    RandomContraction(seed,
                      seed % 3 == 0   ? DType::kF64
                      : seed % 3 == 1 ? DType::kI64
                                      : DType::kI8,
                      10, 40, 30);
  }
}

void PackedContraction(uint32_t seed, int64_t rows) {
  Random random(seed);
  Arena arena;
  PartMaker maker(&arena);
  constexpr PackedType kTypes[] = {PackedType::kU2,   PackedType::kU4,   PackedType::kU8,
                                   PackedType::kE4M3, PackedType::kE5M2, PackedType::kE2M1};
  constexpr int64_t kBlocks[] = {16, 32, 48, 64, 96, 128, 192, 256, int64_t{1} << 20};
  PackedWeights packed = {kTypes[seed % 6], DType::kF32, kBlocks[seed % 9], 0};
  packed.zero = static_cast<int32_t>(Between(random, 0, 9));
  if (rows == 0) rows = Between(random, 1, seed % 8 == 0 ? 80 : 10);
  const PackedShape shape = BeginPacked(
      maker, {rows, Between(random, 1, 3), Between(random, 16, 60), Between(random, 4, 50) * 8}, packed);
  Part& part = maker.part;
  part.lhs = maker.Operand(RandomFloat(random), Mode::kRead, {0, 3});
  const std::vector<uint16_t> rhs =
      AddPacked(maker, shape, Between(random, 1, 2), RandomFloat(random), seed % 3 == 0);
  if (seed % 5 == 4) maker.loops[2] -= 3;  // the columns of an outer loop do not begin at a tile
  const uint16_t bias = maker.Operand(DType::kF32, Mode::kRead, {1, 2});
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, {0, 2, 1});
  MakeEpilogue(random, maker, static_cast<int>(rhs.size()), TapeType::kF32, bias, DType::kF32, out,
               DType::kF32);
  Memory memory;
  memory.Randomise(maker, random);
  // FP8 codes with the lower half of the exponents, because comparing results that nearly cancel is
  // meaningless.
  const uint32_t least =
      part.packed.type == PackedType::kE4M3 || part.packed.type == PackedType::kE5M2 ? 0xbf : 0xff;
  for (uint16_t codes : rhs) {
    for (char& byte : memory.params[maker.operands[codes].param]) byte = static_cast<char>(random() & least);
  }
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {3e-4, 3e-3});
}

TEST(Contraction, ByPackedWeightsMatchesTheReference) {
  for (uint32_t seed = 0; seed < Seeds(36) && !testing::Test::HasFatalFailure(); ++seed)
    PackedContraction(seed, 0);
}

// Row counts that are multiplied at once, and a ragged one.
TEST(Contraction, ByPackedWeightsOfSixteenRowsAndLessMatchesTheReference) {
  constexpr int64_t kRows[] = {16, 8, 15};
  for (uint32_t seed = 0; seed < 36 && !testing::Test::HasFatalFailure(); ++seed)
    PackedContraction(seed, kRows[seed / 6 % 3]);
}

// With more rows, codes are unpacked into panels: blocks of rows, and a ragged rest.
TEST(Contraction, ByPackedWeightsOfManyRowsMatchesTheReference) {
  constexpr int64_t kRows[] = {17, 40, 61};
  for (uint32_t seed = 0; seed < 36 && !testing::Test::HasFatalFailure(); ++seed)
    PackedContraction(seed, kRows[seed / 6 % 3]);
}

// Convolutions and pools over 1 to 3 spatial axes. Images are [n, c, ...], or have channels last, or only the
// input has channels first, as in a network's first layer.
enum class Channels { kFirst, kLast, kLastButInput };
host::Variant RandomConvolution(uint32_t seed, Combine combine, bool depthwise,
                                Channels channels = Channels::kFirst, int64_t most_groups = 2,
                                int64_t most_o = 70) {
  const bool last = channels != Channels::kFirst, input_last = channels == Channels::kLast;
  Random random(seed);
  Arena arena;
  PartMaker maker(&arena);
  Part& part = maker.part;
  part.skeleton = Skeleton::kConvolution;
  part.combine = combine;
  const int spatial = static_cast<int>(Between(random, 1, 3));
  const bool pool = combine != Combine::kProduct;
  const int64_t batch = Between(random, 1, 2), groups = pool || depthwise ? Between(random, 1, last ? 70 : 6)
                                                                          : Between(random, 1, most_groups);
  const int64_t o = pool || depthwise ? 1 : Between(random, 1, last ? most_o : 20),
                c = pool || depthwise ? 1 : Between(random, 1, last ? 20 : 6);
  const auto some_float = [&] {
    return last && Between(random, 0, 2) > 0 ? DType::kF32 : RandomFloat(random);
  };
  part.outer = 1;
  part.m = 2;
  part.n = static_cast<uint8_t>(spatial);
  part.reduced = static_cast<uint8_t>(1 + spatial);
  std::vector<int64_t> in(static_cast<size_t>(spatial)), kernel, out;
  std::vector<int64_t> step, dilation, pad;
  for (int s = 0; s < spatial; ++s) {
    const int64_t size = spatial == 1   ? Between(random, last ? 1 : 5, last ? 60 : 400)
                         : spatial == 2 ? Between(random, 5, 30)
                                        : Between(random, 4, 9);
    in[static_cast<size_t>(s)] = size;
    kernel.push_back(Between(random, 1, 3));
    step.push_back(Between(random, 1, 2));
    dilation.push_back(Between(random, 1, 2));
    pad.push_back(Between(random, 0, 2));
    const int64_t reach = (kernel.back() - 1) * dilation.back() + 1;
    out.push_back((size + 2 * pad.back() - reach) / step.back() + 1);
    if (out.back() < 1 || size + 2 * pad.back() < reach) out.back() = 1;
  }
  maker.loops = {batch, groups, o};
  for (int64_t e : out) maker.loops.push_back(e);
  maker.loops.push_back(c);
  for (int64_t e : kernel) maker.loops.push_back(e);
  const size_t loops = maker.loops.size();

  part.lhs = maker.Operand(some_float(), Mode::kRead, {});
  std::vector<int64_t> strides(loops, 0);
  std::vector<Guard> guards;
  int64_t size = input_last ? groups * c : 1;
  for (int s = spatial - 1; s >= 0; --s) {
    std::vector<int64_t> walk(loops, 0);
    walk[static_cast<size_t>(3 + s)] = step[static_cast<size_t>(s)];
    walk[static_cast<size_t>(4 + spatial + s)] = dilation[static_cast<size_t>(s)];
    guards.push_back({size, -pad[static_cast<size_t>(s)], in[static_cast<size_t>(s)], arena.Copy(walk)});
    size *= in[static_cast<size_t>(s)];
  }
  const int64_t channel = input_last ? 1 : size, picture = input_last ? size : size * c * groups;
  strides[static_cast<size_t>(3 + spatial)] = channel;
  strides[1] = channel * c;
  strides[0] = picture;
  maker.sizes[0] = picture * batch;
  maker.operands[0].strides = arena.Copy(strides);
  maker.operands[0].guards = arena.Copy(guards);
  if (!pool) {
    std::vector<int> order = {1, 2, 3 + spatial};
    for (int s = 0; s < spatial; ++s) order.push_back(4 + spatial + s);
    if (last) std::rotate(order.begin(), order.begin() + 3, order.end());  // [kernel..., g, o, c]
    if (last) std::rotate(order.end() - 3, order.end() - 1, order.end());  // [kernel..., c, g, o]
    part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(some_float(), Mode::kRead, order)});
  }
  const DType out_type = some_float();
  const uint16_t bias = maker.Operand(DType::kF32, Mode::kRead, {1, 2});
  std::vector<int> shape = Range(0, 3 + spatial);
  if (last && Between(random, 0, 4) > 0) std::rotate(shape.begin() + 1, shape.begin() + 3, shape.end());
  const uint16_t result = maker.Operand(out_type, Mode::kWrite, shape);
  MakeEpilogue(random, maker, 1, TapeType::kF32, bias, DType::kF32, result, out_type);
  Memory memory;
  memory.Randomise(maker, random);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {1e-4, 1e-3});
  return (*Prepared(maker)).variant;
}

// Runs `count` random convolutions. Returns how many take each variant.
std::map<host::Variant, uint32_t> RandomConvolutions(uint32_t count, const std::vector<Combine>& combine,
                                                     bool depthwise, Channels channels = Channels::kFirst,
                                                     int64_t most_groups = 2, int64_t most_o = 70) {
  std::map<host::Variant, uint32_t> ways;
  for (uint32_t seed = 0; seed < count && !testing::Test::HasFatalFailure(); ++seed)
    ++ways[RandomConvolution(seed, combine[seed % combine.size()], depthwise, channels, most_groups, most_o)];
  return ways;
}
constexpr Combine kProduct = Combine::kProduct;
const std::vector<Combine> kPools = {Combine::kMax, Combine::kSum, Combine::kMean};

TEST(Convolution, MatchesTheReference) { RandomConvolutions(30, {kProduct}, false); }
TEST(Convolution, DepthwiseMatchesTheReference) {
  EXPECT_GE(RandomConvolutions(20, {kProduct}, true)[host::Variant::kPlanes], 8u);
}
TEST(Convolution, PoolsMatchTheReference) {
  EXPECT_GE(RandomConvolutions(30, kPools, false)[host::Variant::kPlanes], 20u);
}

TEST(ConvolutionWithChannelsLast, MatchesTheReference) {
  const uint32_t count = Seeds(24);
  EXPECT_GE(3 * RandomConvolutions(count, {kProduct}, false, Channels::kLast)[host::Variant::kDirect], count);
}
TEST(ConvolutionWithChannelsLast, OfManyGroupsMatchesTheReference) {
  EXPECT_GE(RandomConvolutions(16, {kProduct}, false, Channels::kLast, 8, 24)[host::Variant::kDirect], 10u);
}
TEST(ConvolutionWithChannelsLast, OfAPictureWithItsChannelsFirstMatchesTheReference) {
  const uint32_t count = Seeds(24);
  auto ways = RandomConvolutions(count, {kProduct}, false, Channels::kLastButInput, 3, 40);
  EXPECT_GE(2 * ways[host::Variant::kDirect], count);
}
TEST(ConvolutionWithChannelsLast, DepthwiseMatchesTheReference) {
  EXPECT_GE(RandomConvolutions(16, {kProduct}, true, Channels::kLast)[host::Variant::kChannels], 11u);
}
TEST(ConvolutionWithChannelsLast, PoolsMatchTheReference) {
  EXPECT_GE(RandomConvolutions(18, kPools, false, Channels::kLast)[host::Variant::kChannels], 16u);
}

}  // namespace
}  // namespace rondo::test
