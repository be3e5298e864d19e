// Matmuls of 8-bit integers: all signs, layouts and epilogues against the reference, and the path for
// machines without an instruction for them.
#include <gtest/gtest.h>

#include <string>

#include "tests/host/driver_case.h"
#include "tests/host/random_layout.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

// How an epilogue begins: with the integer sums, with floats, or with floats after a correction for each
// column.
enum class Begin { kWhole, kFloats, kCorrected };

uint16_t Begun(TapeMaker& tape, Begin begin, uint16_t j, uint16_t correction) {
  const uint16_t sum = tape.Add(TapeOp::kAcc, TapeType::kI64, j);
  if (begin == Begin::kFloats) return tape.Cast(sum, TapeType::kF32, DType::kF32);
  if (begin == Begin::kWhole) return sum;
  const uint16_t less = tape.Binary(TapeOp::kSub, sum, tape.Load(correction, DType::kI32));
  return tape.Cast(Narrowed(tape, less, DType::kI32), TapeType::kF32, DType::kF32);
}

// Adds the sums of all B; if they are floats, quantises them to `out`'s u8.
Tape Epilogue(PartMaker& maker, Begin begin, size_t rights, const std::vector<uint16_t>& corrections,
              uint16_t out) {
  TapeMaker tape;
  uint16_t x = Begun(tape, begin, 0, corrections[0]);
  for (uint16_t j = 1; j < rights; ++j)
    x = tape.Binary(TapeOp::kAdd, x, Begun(tape, begin, j, corrections[j]));
  if (begin != Begin::kWhole) {
    x = tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kMul, x, tape.Const(0.001f)));
    x = tape.Binary(TapeOp::kMin, tape.Binary(TapeOp::kMax, x, tape.Const(-100)), tape.Const(100));
  }
  tape.Store(out, maker.operands[out].dtype, x);
  return maker.Keep(tape);
}

void RandomProduct(uint32_t seed, int64_t most_m, int64_t most_n, int64_t most_k) {
  Random random(seed);
  Arena arena;
  PartMaker maker(&arena);
  Part& part = maker.part;
  BeginProduct(part);
  part.outer = 1;
  part.reduced = static_cast<uint8_t>(Between(random, 1, 2));
  maker.loops = {Between(random, 1, 2), Between(random, 1, most_m), Between(random, 1, most_n),
                 Between(random, 1, most_k)};
  if (part.reduced == 2) maker.loops.push_back(Between(random, 1, 5));
  const std::vector<int> k = Range(3, 3 + part.reduced);
  part.lhs = maker.Operand(RandomByte(random), Mode::kRead, RandomOrder(random, Joined({0, 1}, k)), 3);
  std::vector<uint16_t> rhs, corrections;
  const size_t rights = static_cast<size_t>(Between(random, 1, 3));
  for (size_t j = 0; j < rights; ++j) {
    std::vector<int> order = Joined({0, 2}, k);
    if (Between(random, 0, 1) == 0) order = Joined({0}, Joined(k, {2}));
    if (Between(random, 0, 2) == 0) order.erase(order.begin());
    rhs.push_back(maker.Operand(RandomByte(random), Mode::kRead, order, 5));
    corrections.push_back(maker.Operand(
        DType::kI32, Mode::kRead, Between(random, 0, 2) == 0 ? std::vector<int>{1} : std::vector<int>{2}));
  }
  part.rhs = arena.Copy(rhs);
  const Begin begin = static_cast<Begin>(Between(random, 0, 2));
  const DType type = begin == Begin::kWhole       ? DType::kI32
                     : Between(random, 0, 1) == 0 ? DType::kF32
                                                  : DType::kI8;
  const uint16_t out = maker.Operand(type, Mode::kWrite, RandomOrder(random, {0, 1, 2}), 7);
  part.epilogue = Epilogue(maker, begin, rights, corrections, out);
  Memory memory;
  FillBytes(maker, random, &memory);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
}

TEST(ProductOfBytes, MatchesTheReference) {
  for (uint32_t seed = 0; seed < Seeds(60) && !testing::Test::HasFatalFailure(); ++seed)
    RandomProduct(seed, 90, 60, 150);
}
TEST(ProductOfBytes, OfOneRowMatchesTheReference) {
  for (uint32_t seed = 100; seed < 110 && !testing::Test::HasFatalFailure(); ++seed)
    RandomProduct(seed, 1, 600, 300);
}
// Sums close to the limit of 32 bits, and beyond it, where they are computed in 64 bits.
TEST(ProductOfBytes, OfLongRowsIsExact) {
  for (const int64_t depth : {33000, 40000}) {
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {2, 3, depth};
    BeginProduct(maker.part);
    maker.part.lhs = maker.Operand(DType::kU8, Mode::kRead, {0, 2});
    maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kU8, Mode::kRead, {1, 2})});
    maker.StoreAccumulators(maker.Operand(DType::kI64, Mode::kWrite, {0, 1}), TapeType::kI64);
    Memory memory;
    memory.Resize(maker);
    for (size_t p = 0; p < 2; ++p) std::fill(memory.params[p].begin(), memory.params[p].end(), '\xff');
    ExpectMatchesReference(maker, memory, std::to_string(depth), {});
  }
}

// Images with their channels last or first, padded with `absent`.
void RandomConvolution(uint32_t seed) {
  Random random(seed);
  Arena arena;
  PartMaker maker(&arena);
  Part& part = maker.part;
  BeginConvolution(part);
  const int64_t groups = Between(random, 1, 2), o = Between(random, 1, 40), c = Between(random, 1, 24);
  const int64_t height = Between(random, 3, 12), width = Between(random, 3, 12),
                kernel = Between(random, 1, 3);
  const int64_t step = Between(random, 1, 2), dilation = kernel == 3 ? 1 : Between(random, 1, 2),
                pad = Between(random, 0, 2);
  const Windows down = {height, pad, step, dilation}, across = {width, pad, step, dilation};
  maker.loops = {Between(random, 1, 2), groups, o,      down.Count(kernel),
                 across.Count(kernel),  c,      kernel, kernel};
  const DType type = RandomByte(random);
  const bool last = Between(random, 0, 3) > 0;
  const int64_t channel = last ? 1 : height * width, column = last ? groups * c : 1;
  part.lhs = Pictures(maker, type, channel * c, channel, column, down, across);
  const std::vector<int> order =
      Between(random, 0, 3) == 0 ? std::vector<int>{1, 2, 5, 6, 7} : std::vector<int>{1, 2, 6, 7, 5};
  std::vector<uint16_t> rights = {maker.Operand(RandomByte(random), Mode::kRead, order)};
  const int64_t more = Between(random, 0, 3);  // a second weight, which may be a single number for each group
  if (more == 1) rights.push_back(maker.Operand(RandomByte(random), Mode::kRead, order));
  if (more == 2) rights.push_back(maker.Operand(RandomByte(random), Mode::kRead, {1}));
  part.rhs = arena.Copy(rights);
  const uint16_t correction = maker.Operand(DType::kI32, Mode::kRead, {1, 2});
  const Begin begin = static_cast<Begin>(Between(random, 0, 2));
  const uint16_t out =
      maker.Operand(begin == Begin::kWhole ? DType::kI32 : DType::kI8, Mode::kWrite, {0, 3, 4, 1, 2});
  part.epilogue = Epilogue(maker, begin, rights.size(), {correction, correction}, out);
  Memory memory;
  FillBytes(maker, random, &memory);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
}

TEST(ConvolutionOfBytes, MatchesTheReference) {
  for (uint32_t seed = 0; seed < Seeds(100) && !testing::Test::HasFatalFailure(); ++seed)
    RandomConvolution(seed);
}

// A tape converts bytes in any memory order to floats; one is also read as an integer.
TEST(TapesOverBytes, MatchTheReference) {
  for (uint32_t seed = 0; seed < 30 && !testing::Test::HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {Between(random, 1, 5), Between(random, 1, 70), Between(random, 1, 40)};
    maker.part.outer = 3;
    TapeMaker tape;
    uint16_t sum = tape.Const(0.25f);
    for (int i = 0; i < 3; ++i) {
      const DType type = RandomByte(random);
      const uint16_t operand =
          maker.Operand(type, Mode::kRead, RandomOrder(random, Thinned(random, {0, 1, 2})), 3);
      const uint16_t byte = tape.Load(operand, type);
      sum = tape.Binary(TapeOp::kAdd, sum, tape.Cast(byte, TapeType::kF32, DType::kF32));
      if (i == 0 && Between(random, 0, 1) == 0) {
        const uint16_t twice = tape.Binary(TapeOp::kAdd, byte, byte);
        sum = tape.Binary(TapeOp::kSub, sum, tape.Cast(twice, TapeType::kF32, DType::kF32));
      }
    }
    for (DType type : kBytes) {
      const bool rounded = Between(random, 0, 2) != 0, moved = Between(random, 0, 1) == 0;
      uint16_t x = Between(random, 0, 1) == 0 ? tape.Binary(TapeOp::kDiv, sum, tape.Const(0.75f)) : sum;
      x = rounded ? tape.Unary(TapeOp::kRound, x) : x;
      if (moved) x = tape.Binary(TapeOp::kAdd, x, tape.Const(LeastOf(type) / 2));
      x = Clamped(tape, x, type);
      // Back to floats, which are the same if the value was rounded.
      const uint16_t byte = tape.Cast(x, NaturalType(type), type);
      const uint16_t wide = tape.Cast(byte, TapeType::kF32, DType::kF32);
      tape.Store(maker.Operand(DType::kF32, Mode::kWrite, {0, 1, 2}), DType::kF32,
                 tape.Binary(TapeOp::kMul, wide, tape.Const(0.5f)));
      const uint16_t out = maker.Operand(type, Mode::kWrite, RandomOrder(random, {0, 1, 2}), 5);
      tape.Store(out, type, x);
    }
    tape.Store(maker.Operand(DType::kF32, Mode::kWrite, {0, 1, 2}), DType::kF32, sum);
    maker.part.body = maker.Keep(tape);
    Memory memory;
    FillBytes(maker, random, &memory);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
  }
}

// With few rows and columns, or with many, where vector lanes may be columns.
void MultiplyAs(const std::vector<host::Engine>& engines, Random& random, int64_t k, bool many) {
  const int rows = static_cast<int>(many ? Between(random, 16, 65) : Between(random, 1, 15)),
            columns = static_cast<int>(many ? Between(random, 16, 150) : Between(random, 1, 9));
  const int64_t row = (k + 63) / 64 * 64, acc_row = (columns + 3) / 4 * 4;
  std::vector<uint8_t> a(static_cast<size_t>(rows * row), 0);
  std::vector<char> b(static_cast<size_t>(columns * k));
  for (int m = 0; m < rows; ++m) {
    for (int64_t i = 0; i < k; ++i)
      a[static_cast<size_t>(m * row + i)] = static_cast<uint8_t>(Between(random, 0, 255));
  }
  for (char& x : b) x = static_cast<char>(Between(random, 0, 255));
  const auto expected = [&](int m, int j, uint8_t flip) {
    int32_t sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      const uint8_t bits =
          static_cast<uint8_t>(static_cast<uint8_t>(b[static_cast<size_t>(j * k + i)]) ^ flip);
      sum += a[static_cast<size_t>(m * row + i)] * static_cast<int8_t>(bits);
    }
    return sum;
  };
  for (const uint8_t flip : {0, 128}) {
    for (const host::Engine& engine : engines) {
      for (host::MultiplyBytes multiply : {engine.bytes.multiply, engine.bytes_widened.multiply}) {
        std::vector<int32_t> acc(static_cast<size_t>(rows * acc_row), -1);
        multiply(a.data(), row, rows, b.data(), k, columns, k, flip, acc.data(), acc_row);
        for (int m = 0; m < rows; ++m) {
          for (int j = 0; j < columns; ++j)
            ASSERT_EQ(acc[static_cast<size_t>(m * acc_row + j)], expected(m, j, flip))
                << engine.name << " depth " << k << " of " << rows << " and " << columns;
        }
      }
    }
  }
}

// Tests every multiply function, including those for machines with fewer instructions.
TEST(ProductOfBytes, IsTheSameWithWhateverInstructions) {
  const std::vector<host::Engine> engines = Engines();
  Random random(5);
  for (const int64_t k : {1, 31, 64, 100, 257}) MultiplyAs(engines, random, k, false);
  for (const int64_t k : {3, 4, 16, 27, 31, 64, 147, 160, 161, 256, 530})
    MultiplyAs(engines, random, k, true);
}

}  // namespace
}  // namespace rondo::test
