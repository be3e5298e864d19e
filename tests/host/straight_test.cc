// The host driver's loops without tapes, tiles or packed rows: lines of images multiplied in bytes,
// contiguous floats scaled by channel, bytes in runs, transposed bytes. They are used, and give the same
// results.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "drivers/host/map/map_program.h"
#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/reduction/reduction_program.h"
#include "tests/host/driver_case.h"
#include "tests/host/prepared.h"
#include "tests/host/random_layout.h"
#include "tests/host/stages.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

void ExpectMatches(PartMaker& maker, uint32_t seed, Random& random) {
  Memory memory;
  FillBytes(maker, random, &memory);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
}

// ------------------------------------------------------------------------------- lines of bytes

struct Picture {
  int64_t channels, size, kernel, step = 1, dilation = 1, pad = 0, outputs = 40;
  DType type = DType::kU8, weight = DType::kI8;
  bool sums = false;  // also sums of windows
};

// A convolution of images of `picture.size` rows and columns with channels last.
void Convolution(PartMaker& maker, const Picture& picture) {
  BeginConvolution(maker.part);
  const Windows windows = {picture.size, picture.pad, picture.step, picture.dilation};
  const int64_t count = windows.Count(picture.kernel);
  maker.loops = {2, 1, picture.outputs, count, count, picture.channels, picture.kernel, picture.kernel};
  maker.part.lhs = Pictures(maker, picture.type, picture.channels, 1, picture.channels, windows, windows);
  std::vector<uint16_t> rights = {maker.Operand(picture.weight, Mode::kRead, {1, 2, 6, 7, 5})};
  if (picture.sums) rights.push_back(maker.Operand(picture.weight, Mode::kRead, {1}));
  maker.part.rhs = maker.arena->Copy(rights);
  TapeMaker tape;
  uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kI64, 0);
  if (picture.sums) x = tape.Binary(TapeOp::kSub, x, tape.Add(TapeOp::kAcc, TapeType::kI64, 1));
  tape.Store(maker.Operand(DType::kI32, Mode::kWrite, {0, 3, 4, 1, 2}), DType::kI32, x);
  maker.part.epilogue = maker.Keep(tape);
}

TEST(LinesOfBytes, AreReadWhereTapsLieBesideEachOther) {
  const auto lines = [](const Picture& picture) {
    Arena arena;
    PartMaker maker(&arena);
    Convolution(maker, picture);
    const Prepared part(maker);
    EXPECT_EQ((*part).variant, host::Variant::kBytes);
    return part.As<host::BytesPart>().lines;
  };
  if (Engines().back().bytes_widened.multiply_lines == nullptr) GTEST_SKIP() << "no instructions for it";
  const host::ByteLines square = lines({16, 20, 3, 1, 1, 1});
  EXPECT_EQ(square.how.lines, 3);
  EXPECT_EQ(square.how.length, 48);
  EXPECT_EQ(square.how.point_step, 16);
  EXPECT_FALSE(square.apart);
  const host::ByteLines picture = lines({3, 30, 7, 2, 1, 3});
  EXPECT_EQ(picture.how.lines, 7);
  EXPECT_EQ(picture.how.length, 21);
  EXPECT_EQ(picture.how.point_step, 6);
  const host::ByteLines dilated = lines({8, 20, 3, 1, 2, 2});
  EXPECT_EQ(dilated.how.lines, 9);
  EXPECT_EQ(dilated.how.length, 8);
  const host::ByteLines every_second = lines({8, 20, 1, 2});
  EXPECT_TRUE(every_second.apart);
  EXPECT_EQ(every_second.how.point_step, 8);
}

TEST(LinesOfBytes, AreMultipliedByColumnsThatLieBesideEachOther) {
  if (Engines().back().bytes_widened.multiply_lines == nullptr) GTEST_SKIP() << "no instructions for it";
  for (const int64_t columns : {32, 21, 300}) {
    for (const std::vector<int>& order : {std::vector<int>{2, 1}, {1, 2}}) {
      Arena arena;
      PartMaker maker(&arena);
      maker.loops = {70, columns, 301};
      BeginProduct(maker.part);
      maker.part.lhs = maker.Operand(DType::kU8, Mode::kRead, {0, 2});
      maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kU8, Mode::kRead, order)});
      maker.StoreAccumulators(maker.Operand(DType::kI32, Mode::kWrite, {0, 1}), TapeType::kI64);
      {
        const Prepared part(maker);
        EXPECT_EQ(part.As<host::BytesPart>().lines.how.lines, 1);
        EXPECT_EQ(part.As<host::BytesPart>().lines.k_step[0], order[0] == 2 ? columns : 0);
      }
      Random random(5);
      ExpectMatches(maker, 5, random);
    }
  }
}

TEST(LinesOfBytes, MatchTheReference) {
  for (uint32_t seed = 0; seed < 24 && !HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    Picture picture;
    picture.channels = Between(random, 0, 3) == 0 ? 3 : Between(random, 1, 40);
    picture.size = Between(random, 0, 3) == 0 ? Between(random, 60, 90) : Between(random, 5, 20);
    picture.kernel = Between(random, 1, 5);
    picture.step = Between(random, 1, 3);
    picture.dilation = picture.kernel == 5 ? 1 : Between(random, 1, 2);
    if ((picture.kernel - 1) * picture.dilation >= picture.size) picture.dilation = 1;
    picture.pad = Between(random, 0, picture.kernel);
    picture.outputs = Between(random, 1, picture.size > 20 ? 20 : 70);
    picture.type = RandomByte(random);
    picture.weight = RandomByte(random);
    picture.sums = Between(random, 0, 1) == 0;
    Convolution(maker, picture);
    ExpectMatches(maker, seed, random);
  }
}

// Lines and pieces of any size, also panels that end within a line.
TEST(LinesOfBytes, AreMultipliedAndAddedUpExactly) {
  Random random(3);
  for (int run = 0; run < 60; ++run) {
    for (const host::Engine& engine : Engines()) {
      const host::ByteInstructions& with = engine.bytes_widened;
      if (with.multiply_lines == nullptr) continue;
      host::WideLines how;
      how.lines = run % 5 == 0 ? Between(random, 129, 300) : Between(random, 1, 9);
      how.length = run % 5 == 0 ? Between(random, 1, 9) : Between(random, 1, 700);
      how.point_step = Between(random, 1, how.length);
      constexpr int kMostPoints = 31;
      const int64_t bytes = kMostPoints * how.point_step + how.length;
      how.line_step = bytes + host::kWideSlack;
      const int columns = static_cast<int>(Between(random, 1, 70));
      const bool left = Between(random, 0, 1) == 0, right = Between(random, 0, 1) == 0;
      const int64_t k = how.lines * how.length, acc_row = (columns + 3) / 4 * 4;
      std::vector<int16_t> wide;
      std::vector<std::vector<uint8_t>> narrow;
      std::vector<host::WidePiece> pieces(static_cast<size_t>(Between(random, 1, 3)));
      wide.resize(pieces.size() * static_cast<size_t>(how.lines * how.line_step) + host::kWideSlack);
      int rows = 0;
      for (size_t p = 0; p < pieces.size(); ++p) {
        int16_t* const to = &wide[p * static_cast<size_t>(how.lines * how.line_step)];
        pieces[p] = {to, static_cast<int>(Between(random, 1, kMostPoints))};
        rows += pieces[p].points;
        for (int64_t line = 0; line < how.lines; ++line) {
          std::vector<uint8_t>& from = narrow.emplace_back(static_cast<size_t>(bytes));
          for (uint8_t& byte : from) byte = static_cast<uint8_t>(Between(random, 0, 255));
          with.widen(from.data(), bytes, left, to + line * how.line_step);
        }
      }
      std::vector<char> b(static_cast<size_t>(columns * k));
      for (char& byte : b) byte = static_cast<char>(Between(random, 0, 255));
      std::vector<int32_t> acc(static_cast<size_t>(rows * acc_row), -1);
      // Columns are one after another, or interleaved in memory that ends with the last one.
      const bool across = Between(random, 0, 1) == 0;
      const int64_t gap = across ? Between(random, 0, 3) : 0;
      std::vector<char> transposed;
      for (int64_t i = 0; across && i < k; ++i) {
        transposed.resize(transposed.size() + static_cast<size_t>(i == 0 ? 0 : gap), 'x');
        for (int j = 0; j < columns; ++j) transposed.push_back(b[static_cast<size_t>(j * k + i)]);
      }
      const std::unique_ptr<char[]> exact(new char[transposed.size()]);
      std::copy(transposed.begin(), transposed.end(), exact.get());
      host::ByteColumns right_side;
      right_side.b = across ? exact.get() : b.data();
      right_side.b_step = across ? 1 : k;
      right_side.k_step = across ? columns + gap : 0;
      right_side.columns = columns;
      right_side.is_unsigned = right;
      with.multiply_lines(how, pieces.data(), static_cast<int>(pieces.size()), right_side, acc.data(),
                          acc_row);
      int row = 0;
      std::vector<int16_t> added(static_cast<size_t>(how.line_step));
      for (size_t p = 0; p < pieces.size(); ++p) {
        std::vector<int64_t> sums(kMostPoints);
        with.sum_lines(how, pieces[p], added.data(), sums.data());
        for (int m = 0; m < pieces[p].points; ++m, ++row) {
          const auto number = [&](int64_t i) {
            const uint8_t byte =
                narrow[p * static_cast<size_t>(how.lines) + static_cast<size_t>(i / how.length)]
                      [static_cast<size_t>(m * how.point_step + i % how.length)];
            return left ? static_cast<int8_t>(byte) : int32_t{byte};
          };
          int64_t sum = 0;
          for (int64_t i = 0; i < k; ++i) sum += number(i);
          ASSERT_EQ(sums[static_cast<size_t>(m)], sum) << engine.name << " run " << run;
          for (const int j : {0, columns / 2, columns - 1}) {
            int32_t want = 0;
            for (int64_t i = 0; i < k; ++i) {
              const char byte = b[static_cast<size_t>(j * k + i)];
              want += number(i) * (right ? static_cast<uint8_t>(byte) : static_cast<int8_t>(byte));
            }
            ASSERT_EQ(acc[static_cast<size_t>(row * acc_row + j)], want)
                << engine.name << " run " << run << " row " << row << " column " << j;
          }
        }
      }
    }
  }
}

// -------------------------------------------------------------------------- floats that lie straight

// What is done to the floats before their range is computed and they are quantised.
enum class Scaled { kNot, kTimes, kTimesAndPlus, kLimitedAsWell, kSquaredAsWell };

// The range of [pixels, channels], whose rows in memory are `gap` longer, and the quantisation by it.
void RangeByChannel(PartMaker& maker, Scaled scaled, int64_t gap, DType byte) {
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.reduced = 2;
  maker.part.scalars = 3;
  const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0, 1}, maker.loops[0] * gap);
  maker.operands[in].strides = maker.arena->Copy(std::vector<int64_t>{maker.loops[1] + gap, 1});
  maker.operands[in].offset = 0;
  const uint16_t factor = maker.Operand(DType::kF32, Mode::kRead, {1}),
                 term = maker.Operand(DType::kF32, Mode::kRead, {1});
  const auto value = [&](TapeMaker& tape) {
    uint16_t x = tape.Load(in, DType::kF32);
    if (scaled != Scaled::kNot) x = tape.Binary(TapeOp::kMul, x, tape.Load(factor, DType::kF32));
    if (scaled >= Scaled::kTimesAndPlus) x = tape.Binary(TapeOp::kAdd, x, tape.Load(term, DType::kF32));
    return scaled == Scaled::kLimitedAsWell   ? tape.Binary(TapeOp::kMax, x, tape.Const(-0.5f))
           : scaled == Scaled::kSquaredAsWell ? tape.Binary(TapeOp::kMul, x, x)
                                              : x;
  };
  TapeMaker range, row, store;
  const uint16_t x = value(range);
  range.Add(TapeOp::kReduceMin, TapeType::kF32, 0, x);
  range.Add(TapeOp::kReduceMax, TapeType::kF32, 1, x);
  for (const uint16_t slot : {0, 1})
    row.Store(maker.Operand(DType::kF32, Mode::kWrite, {}), DType::kF32,
              row.Add(TapeOp::kScalar, TapeType::kF32, slot));
  row.Add(TapeOp::kSetScalar, TapeType::kF32, 2, row.Const(0.03f));
  const uint16_t divisor = store.Add(TapeOp::kScalar, TapeType::kF32, 2);
  const uint16_t y = store.Unary(TapeOp::kRound, store.Binary(TapeOp::kDiv, value(store), divisor));
  store.Store(maker.Operand(byte, Mode::kWrite, {0, 1}), byte, Clamped(store, y, byte));
  KeepStages(maker, {{false, range}, {true, row}, {false, store}});
}

TEST(StraightFloats, OfChannelsNeedNoTape) {
  for (const Scaled scaled : {Scaled::kNot, Scaled::kTimes, Scaled::kTimesAndPlus, Scaled::kLimitedAsWell,
                              Scaled::kSquaredAsWell}) {
    for (const int64_t gap : {0, 5}) {
      Arena arena;
      PartMaker maker(&arena);
      maker.loops = {30, 24};
      RangeByChannel(maker, scaled, gap, DType::kU8);
      const Prepared part(maker);
      ASSERT_EQ((*part).variant, host::Variant::kOneRow);
      ASSERT_EQ((*part).phases, 2);
      for (int phase = 0; phase < 2; ++phase) {
        const host::StageProgram& stage =
            part.As<host::ReductionPart>().stages[part.As<host::ReductionPart>().phase_stage[phase]];
        EXPECT_EQ(stage.floats != nullptr, scaled != Scaled::kSquaredAsWell);
        EXPECT_EQ(stage.factors != nullptr, scaled != Scaled::kNot && scaled != Scaled::kSquaredAsWell);
        EXPECT_EQ(stage.terms != nullptr,
                  scaled == Scaled::kTimesAndPlus || scaled == Scaled::kLimitedAsWell);
        EXPECT_EQ(stage.low, scaled == Scaled::kLimitedAsWell ? -0.5f : -HUGE_VALF);
      }
      // A known range of the stored values cannot be used if they are scaled first, or if only a part is
      // read.
      EXPECT_EQ((*part).take_range != nullptr, scaled == Scaled::kNot && gap == 0);
    }
  }
}

TEST(StraightFloats, MatchTheReference) {
  for (uint32_t seed = 0; seed < 64 && !HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {Between(random, 1, 90),
                   seed % 3 == 0 ? Between(random, 250, 2100) : Between(random, 1, 70)};
    RangeByChannel(maker, static_cast<Scaled>(seed % 5), Between(random, 0, 1) * 7, kBytes[seed / 5 % 2]);
    Memory memory;
    memory.Randomise(maker, random);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
  }
}

// ------------------------------------------------------------------------------------- softmax of rows

enum class Left { kFloats, kBytes, kScaledBytes };

// A softmax of [rows, length] from type `from` to type `to`; bytes are scaled. `beside`: the quotients are
// also stored as floats, which no fast path supports.
void Softmax(PartMaker& maker, Left left, DType from, DType to, bool beside) {
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = maker.part.reduced = 1;
  maker.part.scalars = 2;
  maker.part.kept = 1;
  const uint16_t in = maker.Operand(from, Mode::kRead, {0, 1}), out = maker.Operand(to, Mode::kWrite, {0, 1});
  const auto value = [&](TapeMaker& tape) {
    uint16_t x = tape.Load(in, from);
    if (left == Left::kFloats) return x;
    x = tape.Cast(x, TapeType::kF32, DType::kF32);
    if (left == Left::kBytes) return x;
    return tape.Binary(TapeOp::kMul, tape.Binary(TapeOp::kSub, x, tape.Const(17)), tape.Const(0.037f));
  };
  TapeMaker most, sum, store;
  most.Add(TapeOp::kReduceMax, TapeType::kF32, 0, value(most));
  const uint16_t x = value(sum);
  const uint16_t e =
      sum.Unary(TapeOp::kExp, sum.Binary(TapeOp::kSub, x, sum.Add(TapeOp::kScalar, TapeType::kF32, 0)));
  sum.Add(TapeOp::kKeep, TapeType::kF32, 0, e);
  sum.Add(TapeOp::kReduceSum, TapeType::kF32, 1, e);
  uint16_t y = store.Binary(TapeOp::kDiv, store.Add(TapeOp::kKept, TapeType::kF32, 0),
                            store.Add(TapeOp::kScalar, TapeType::kF32, 1));
  if (beside) store.Store(maker.Operand(DType::kF32, Mode::kWrite, {0, 1}), DType::kF32, y);
  if (ByteSize(to) == 1)
    y = Clamped(store, store.Unary(TapeOp::kRound, store.Binary(TapeOp::kDiv, y, store.Const(1 / 255.0f))),
                to);
  store.Store(out, to, y);
  KeepStages(maker, {{false, most}, {false, sum}, {false, store}});
}

// The same bits as with tapes, for every instruction set, and close to the reference.
TEST(SoftmaxOfRows, NeedsNoTapeAndGivesTheSameBits) {
  for (uint32_t seed = 0; seed < 48 && !HasFatalFailure(); ++seed) {
    Random random(seed);
    const Left left = static_cast<Left>(seed % 3);
    const DType from = left == Left::kFloats ? DType::kF32 : RandomByte(random);
    const DType to = seed / 3 % 2 == 0 ? DType::kF32 : RandomByte(random);
    const std::vector<int64_t> loops = {Between(random, 1, 9),
                                        seed % 5 == 0 ? Between(random, 250, 1300) : Between(random, 2, 90)};
    Arena arena;
    std::vector<PartMaker> makers(2, PartMaker(&arena));
    for (const bool tapes : {false, true}) {
      makers[tapes].loops = loops;
      Softmax(makers[tapes], left, from, to, tapes);
    }
    {
      const Prepared quick(makers[0]), slow(makers[1]);
      if (loops[0] == 1 || (*quick).variant != host::Variant::kRows) continue;
      EXPECT_NE(quick.As<host::ReductionPart>().softmax, nullptr) << "seed " << seed;
      EXPECT_EQ(slow.As<host::ReductionPart>().softmax, nullptr);
    }
    Memory memory, also;
    FillBytes(makers[0], random, &memory);
    also = memory;
    also.Resize(makers[1]);
    also.params[0] = memory.params[0];
    if (left == Left::kFloats && seed % 4 == 0 && loops[0] > 1) {  // one row with NaN, one of infinities
      float* x = reinterpret_cast<float*>(also.params[0].data());
      x[loops[1] / 2] = std::nanf("");
      std::fill(x + loops[1], x + 2 * loops[1], HUGE_VALF);
      memory.params[0] = also.params[0];
    }
    for (uint32_t isa = 0; isa < 3; ++isa) {
      HostOptions options;
      options.threads = 1;
      options.max_isa = isa;
      Memory results[2] = {memory, also};
      for (const bool tapes : {false, true}) {
        HostFixture host(options);
        const Kernel kernel = makers[tapes].Make();
        Module* module = host.Load(kernel);
        ASSERT_NE(module, nullptr);
        EXPECT_TRUE(host.Launch(module, &results[tapes]).ok());
        host.device->DestroyModule(module);
      }
      EXPECT_EQ(results[0].params[1], results[1].params[1]) << "instruction set " << isa << ", seed " << seed;
    }
    if (to == DType::kF32 && seed % 4 != 0) ExpectMatchesReference(makers[0], memory, std::to_string(seed));
  }
}

// ------------------------------------------------------------------------------------- bytes in runs

TEST(BytesInRuns, FillAndQuantiseWholeRuns) {
  for (uint32_t seed = 0; seed < 24 && !HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    const bool fills = seed % 2 == 0;
    const DType byte = kBytes[seed / 2 % 2];
    maker.loops = {Between(random, 1, 9), Between(random, 1, 20000)};
    maker.part.outer = 2;
    TapeMaker tape;
    if (fills) {
      const uint16_t from = maker.Operand(byte, Mode::kRead, {}),
                     to = maker.Operand(byte, Mode::kWrite, {0, 1}, 3);
      tape.Store(to, byte, tape.Load(from, byte));
    } else {
      const uint16_t from = maker.Operand(DType::kF32, Mode::kRead, {0, 1}),
                     scale = maker.Operand(DType::kF32, Mode::kRead, {});
      const uint16_t to = maker.Operand(byte, Mode::kWrite, {0, 1}, maker.loops[0] * 5);
      maker.operands[to].strides = maker.arena->Copy(std::vector<int64_t>{maker.loops[1] + 5, 1});
      maker.operands[to].offset = 3;
      const uint16_t by = tape.Load(scale, DType::kF32);
      const uint16_t x =
          tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kDiv, tape.Load(from, DType::kF32), by));
      tape.Store(to, byte, Clamped(tape, x, byte));
    }
    maker.part.body = maker.Keep(tape);
    if (maker.loops[0] > 1 && maker.loops[1] > 300) {
      const Prepared part(maker);
      EXPECT_EQ(part.As<host::MapPart>().fills != nullptr, fills);
      EXPECT_EQ(part.As<host::MapPart>().in_runs, !fills);
    }
    Memory memory;
    FillBytes(maker, random, &memory);
    if (!fills) {
      const float scale = 0.25f;
      std::memcpy(memory.params[1].data(), &scale, sizeof(scale));
    }
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
  }
}

// ------------------------------------------------------------------------------- bytes that are transposed

enum class Transposed { kBytes, kQuantised, kScaled, kByRange };

// Converts [pictures, half, channel, point] to bytes in the order `order`, in which points come before
// channels.
void Transpose(PartMaker& maker, Transposed what, DType byte, const std::vector<int>& order, int64_t gap) {
  const bool range = what == Transposed::kByRange;
  const DType type = what == Transposed::kBytes ? byte : DType::kF32;
  const uint16_t from = maker.Operand(type, Mode::kRead, {0, 1, 2, 3}),
                 factor = maker.Operand(DType::kF32, Mode::kRead, {1, 2}),
                 to = maker.Operand(byte, Mode::kWrite, order, maker.loops[0] * maker.loops[3] * gap);
  const int64_t channels = maker.loops[1] * maker.loops[2];
  std::vector<int64_t> strides(maker.operands[to].strides.begin(), maker.operands[to].strides.end());
  strides[0] += gap * strides[0] / channels;
  strides[3] += gap;
  maker.operands[to].strides = maker.arena->Copy(strides);
  maker.operands[to].offset = gap / 2;
  TapeMaker tape;
  uint16_t x = tape.Load(from, type);
  if (what == Transposed::kScaled) x = tape.Binary(TapeOp::kMul, x, tape.Load(factor, DType::kF32));
  if (what != Transposed::kBytes) {
    const uint16_t divisor = range ? tape.Add(TapeOp::kScalar, TapeType::kF32, 1) : tape.Const(0.013f);
    x = Clamped(tape, tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kDiv, x, divisor)), byte);
  }
  tape.Store(to, byte, x);
  if (!range) {
    maker.part.outer = 4;
    maker.part.body = maker.Keep(tape);
    return;
  }
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.reduced = 4;
  maker.part.scalars = 2;
  TapeMaker find, row;
  find.Add(TapeOp::kReduceMax, TapeType::kF32, 0, find.Load(from, DType::kF32));
  row.Add(TapeOp::kSetScalar, TapeType::kF32, 1, row.Const(0.017f));
  row.Store(maker.Operand(DType::kF32, Mode::kWrite, {}), DType::kF32,
            row.Add(TapeOp::kScalar, TapeType::kF32, 0));
  KeepStages(maker, {{false, find}, {true, row}, {false, tape}});
}

// Two loops, in any order, give a channel's place. Bytes between points stay unchanged.
TEST(BytesTransposed, AreMadeByChannelAndStoredByPoint) {
  for (uint32_t seed = 0; seed < 96 && !HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    const bool few = seed / 4 % 3 == 0;
    maker.loops = {Between(random, 1, 3), few ? 1 : Between(random, 1, 3),
                   few ? Between(random, 2, 5) : Between(random, 2, 90),
                   seed % 5 == 0 ? Between(random, 257, 700) : Between(random, 32, 90)};
    const Transposed what = static_cast<Transposed>(seed % 4);
    const DType byte = kBytes[seed / 4 % 2];
    const bool shuffled = Between(random, 0, 1) == 0;
    Transpose(maker, what, byte, shuffled ? std::vector<int>{0, 3, 2, 1} : std::vector<int>{0, 3, 1, 2},
              Between(random, 0, 1) * 4);
    {
      const Prepared part(maker);
      const host::TransposeProgram* transpose =
          (*part).variant == host::Variant::kMap ? part.As<host::MapPart>().transpose : nullptr;
      if (what == Transposed::kByRange) {
        ASSERT_EQ((*part).variant, host::Variant::kOneRow);
        transpose = part.As<host::ReductionPart>().stages[2].transpose;
      }
      ASSERT_NE(transpose, nullptr) << "seed " << seed;
      EXPECT_EQ(transpose->channels, maker.loops[1] * maker.loops[2]);
    }
    Memory memory;
    FillBytes(maker, random, &memory);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
  }
}

}  // namespace
}  // namespace rondo::test
