// Depthwise convolutions of 8-bit integers, and epilogues that scale and quantise sums, against the
// reference.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>

#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/module.h"
#include "tests/host/driver_case.h"
#include "tests/host/kernel_plan.h"
#include "tests/host/random_layout.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

// Fills with bytes of any bits, and with 16-bit numbers of all magnitudes.
void FillNumbers(const PartMaker& maker, Random& random, Memory* memory) {
  FillBytes(maker, random, memory);
  const int64_t most = int64_t{1} << Between(random, 6, 15);
  for (size_t p = 0; p < memory->params.size(); ++p) {
    std::vector<char>& bytes = memory->params[p];
    for (size_t i = 0; maker.dtypes[p] == DType::kI16 && i + 1 < bytes.size(); i += 2) {
      const auto number = static_cast<int16_t>(Between(random, -most, most - 1));
      std::memcpy(&bytes[i], &number, sizeof(number));
    }
  }
}

// What an epilogue does with sums: nothing, scale them to floats, or also quantise these.
enum class End { kWhole, kScaled, kQuantised };

// Corrects `sum`. `rows` and `columns` are the loops of rows and columns. If there is a second B, it is a
// single number, and its sums belong to rows.
uint16_t Corrected(TapeMaker& tape, PartMaker& maker, Random& random, uint16_t sum,
                   const std::vector<int>& rows, const std::vector<int>& columns) {
  const auto whole = [&](uint16_t a) { return Narrowed(tape, a, DType::kI32); };
  if (Between(random, 0, 1) == 0) {
    const uint16_t one = tape.Load(maker.Operand(DType::kU8, Mode::kRead, {}), DType::kU8);
    const uint16_t each = tape.Load(maker.Operand(DType::kI32, Mode::kRead, columns), DType::kI32);
    sum = whole(tape.Binary(TapeOp::kSub, sum, whole(tape.Binary(TapeOp::kMul, one, each))));
  }
  const bool sums = maker.part.rhs.size() > 1;
  if (sums || Between(random, 0, 2) == 0) {
    const uint16_t other = static_cast<uint16_t>(1 - tape.list[0].arg);
    const uint16_t row = sums ? tape.Add(TapeOp::kAcc, TapeType::kI64, other)
                              : tape.Load(maker.Operand(DType::kI32, Mode::kRead, rows), DType::kI32);
    const uint16_t times = Between(random, 0, 1) == 0
                               ? tape.ConstInt(-7)
                               : tape.Load(maker.Operand(DType::kI8, Mode::kRead, columns), DType::kI8);
    const uint16_t product = tape.Binary(TapeOp::kMul, times, row);
    sum = whole(tape.Binary(TapeOp::kSub, sum, Between(random, 0, 1) == 0 ? whole(product) : product));
  }
  return sum;
}

uint16_t Scaled(TapeMaker& tape, PartMaker& maker, Random& random, uint16_t sum,
                const std::vector<int>& columns) {
  uint16_t x = tape.Cast(sum, TapeType::kF32, DType::kF32);
  if (Between(random, 0, 2) == 0)
    x = tape.Cast(tape.Cast(x, TapeType::kI64, DType::kI32), TapeType::kF32, DType::kF32);
  const auto of_columns = [&] {
    return tape.Load(maker.Operand(DType::kF32, Mode::kRead, columns), DType::kF32);
  };
  if (Between(random, 0, 3) == 0) x = tape.Binary(TapeOp::kAdd, x, of_columns());
  x = tape.Binary(TapeOp::kMul, x, tape.Binary(TapeOp::kMul, of_columns(), tape.Const(0.001f)));
  if (Between(random, 0, 1) == 0) x = tape.Binary(TapeOp::kAdd, of_columns(), x);
  if (Between(random, 0, 2) == 0) x = tape.Binary(TapeOp::kMax, x, tape.Const(-0.5f));
  if (Between(random, 0, 2) == 0) x = tape.Binary(TapeOp::kMin, x, tape.Const(6));
  return x;
}

Tape EpilogueOf(PartMaker& maker, Random& random, End end, const std::vector<int>& rows,
                const std::vector<int>& columns, const std::vector<int>& out, uint16_t right = 0) {
  TapeMaker tape;
  uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kI64, right);
  DType type = DType::kI32;
  if (end != End::kWhole) {
    x = Scaled(tape, maker, random, Corrected(tape, maker, random, x, rows, columns), columns);
    type = DType::kF32;
    if (Between(random, 0, 3) == 0)  // one more step than a single pass does
      x = tape.Binary(TapeOp::kAdd, x, tape.Load(maker.Operand(DType::kF32, Mode::kRead, out), DType::kF32));
  }
  if (end == End::kQuantised) {
    type = RandomByte(random);
    x = tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kDiv, x, tape.Const(0.03125f)));
    if (Between(random, 0, 1) == 0) x = tape.Binary(TapeOp::kAdd, x, tape.Const(LeastOf(type) + 100));
    x = Clamped(tape, x, type);
  }
  tape.Store(maker.Operand(type, Mode::kWrite, out, 7), type, x);
  return maker.Keep(tape);
}

// A depthwise convolution of images with their channels last, padded with `absent`.
void RandomDepthwise(uint32_t seed, DType weight) {
  Random random(seed);
  Arena arena;
  PartMaker maker(&arena);
  Part& part = maker.part;
  BeginConvolution(part);
  const int64_t channels = Between(random, 0, 2) == 0 ? Between(random, 65, 600) : Between(random, 2, 64);
  const int64_t high = Between(random, 1, 5), wide = Between(random, 1, 5), step = Between(random, 1, 3),
                step_down = Between(random, 1, 2), dilation = Between(random, 1, 2),
                pad = Between(random, 0, 3);
  const int64_t height = Between(random, 0, 8) + high,
                width = Between(random, 0, 30) + (wide - 1) * dilation + 1;
  const Windows down = {height, pad, step_down, 1}, across = {width, pad, step, dilation};
  maker.loops = {Between(random, 1, 2), channels, 1, down.Count(high), across.Count(wide), 1, high, wide};
  part.lhs = Pictures(maker, RandomByte(random), 1, 0, channels, down, across);
  part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(weight, Mode::kRead, {6, 7, 1})});
  part.epilogue =
      EpilogueOf(maker, random, static_cast<End>(Between(random, 0, 2)), {0, 3, 4}, {1}, {0, 3, 4, 1});
  Memory memory;
  FillNumbers(maker, random, &memory);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed) + ", weights " + Name(weight), {});
}

TEST(DepthwiseConvolutionOfBytes, MatchesTheReference) {
  for (const DType weight : {DType::kI8, DType::kU8, DType::kI16}) {
    for (uint32_t seed = 0; seed < Seeds(30) && !testing::Test::HasFatalFailure(); ++seed)
      RandomDepthwise(seed, weight);
  }
}

// Epilogues of matmuls, most of which are a single pass.
TEST(ScaledSumsOfBytes, MatchTheReference) {
  for (uint32_t seed = 0; seed < Seeds(150) && !testing::Test::HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    Part& part = maker.part;
    BeginProduct(part);
    maker.loops = {Between(random, 1, 70), Between(random, 1, 300), Between(random, 1, 90)};
    part.lhs = maker.Operand(RandomByte(random), Mode::kRead, {0, 2});
    std::vector<uint16_t> rights = {maker.Operand(RandomByte(random), Mode::kRead, {1, 2})};
    const int64_t sums = Between(random, -1, 1);  // which B is a single number, if any
    if (sums >= 0)
      rights.insert(rights.begin() + 1 - sums, maker.Operand(RandomByte(random), Mode::kRead, {}));
    part.rhs = arena.Copy(rights);
    part.epilogue =
        EpilogueOf(maker, random, Between(random, 0, 1) == 0 ? End::kScaled : End::kQuantised, {0}, {1},
                   Between(random, 0, 3) == 0 ? std::vector<int>{1, 0} : std::vector<int>{0, 1},
                   static_cast<uint16_t>(rights.size() > 1 && sums == 1));
    Memory memory;
    FillNumbers(maker, random, &memory);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
  }
}

// Maxima over windows of images with their channels last or first; absent elements do not count.
TEST(GreatestBytes, MatchTheReference) {
  for (uint32_t seed = 0; seed < 40 && !testing::Test::HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    Part& part = maker.part;
    BeginConvolution(part);
    part.combine = Combine::kMax;
    const int64_t channels = Between(random, 1, 2) * Between(random, 2, 200), height = Between(random, 3, 9),
                  width = Between(random, 3, 9), kernel = Between(random, 1, 3), step = Between(random, 1, 2),
                  pad = Between(random, 0, kernel - 1);
    const Windows down = {height, pad, step, 1}, across = {width, pad, step, 1};
    maker.loops = {Between(random, 1, 2), channels, 1,      down.Count(kernel),
                   across.Count(kernel),  1,        kernel, kernel};
    const DType type = RandomByte(random);
    const bool last = Between(random, 0, 3) > 0;
    part.lhs = Pictures(maker, type, last ? 1 : height * width, 0, last ? channels : 1, down, across);
    TapeMaker tape;
    uint16_t greatest = tape.Add(TapeOp::kAcc, TapeType::kI64, 0);
    if (Between(random, 0, 1) == 0) greatest = Narrowed(tape, greatest, type);
    const bool as_read = Between(random, 0, 3) > 0;
    const std::vector<int> out = as_read ? std::vector<int>{0, 3, 4, 1} : std::vector<int>{0, 1, 3, 4};
    // Rescales each byte: dequantises by one scale, quantises by another, and perhaps dequantises again.
    const bool scaled = Between(random, 0, 2) == 0, floats = scaled && seed % 2 == 0;
    if (scaled) {
      const auto real = [&](uint16_t x, float zero, float scale) {
        return tape.Binary(TapeOp::kMul, tape.Binary(TapeOp::kSub, x, tape.Const(zero)), tape.Const(scale));
      };
      uint16_t x = real(tape.Cast(greatest, TapeType::kF32, DType::kF32), 3, 0.037f);
      x = tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kDiv, x, tape.Const(0.041f)));
      greatest = Clamped(tape, x, type);
      if (floats) greatest = real(greatest, 5, 0.041f);
    }
    const DType stored = floats ? DType::kF32 : !scaled && Between(random, 0, 4) == 0 ? DType::kI32 : type;
    tape.Store(maker.Operand(stored, Mode::kWrite, out, 7), floats ? stored : type, greatest);
    part.epilogue = maker.Keep(tape);
    if (scaled && last && as_read) {
      KernelPlan plan;
      plan.Add(maker);
      Status status = Status::Ok();
      const std::unique_ptr<host::HostModule> module(
          host::HostModule::Create(plan.data, Engines().back(), {}, nullptr, &status));
      ASSERT_TRUE(status.ok()) << status.message();
      const host::PartProgram& program = *module->kernel(0)->parts[0];
      ASSERT_EQ(program.variant, host::Variant::kBytePool) << "seed " << seed;
      EXPECT_NE(static_cast<const host::BytePoolPart&>(program).of_bytes, nullptr);
    }
    Memory memory;
    FillNumbers(maker, random, &memory);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
  }
}

// Windows with two horizontal and five vertical taps: as many points as are summed together, and more.
TEST(DepthwiseConvolutionOfBytes, IsTheSameWithWhateverInstructions) {
  Random random(8);
  for (const host::Engine& engine : Engines()) {
    for (const host::ChannelInstructions& with : {engine.bytes.channels, engine.bytes_widened.channels}) {
      constexpr int kTaps = 2, kPoints = 7, kColumns = kPoints + kTaps - 1, kVertical = 5;
      const bool pairs = with.taps == 2;
      const size_t beside = static_cast<size_t>(with.taps), fours = (kVertical + beside - 1) / beside,
                   step = static_cast<size_t>(with.step), four = 4 * step;
      for (const int channels : {1, with.step / 4, with.step / 2 + 3, with.step - 3, with.step}) {
        std::vector<uint8_t> picture(kColumns * kVertical * step), weights(kTaps * kVertical * step),
            high(kTaps * kVertical * step), none(step, 0);
        for (uint8_t& x : picture) x = static_cast<uint8_t>(Between(random, 0, 255));
        for (uint8_t& x : weights) x = static_cast<uint8_t>(Between(random, 0, 255));
        for (uint8_t& x : high) x = static_cast<uint8_t>(Between(random, 0, 255));
        std::vector<uint8_t> columns(kColumns * fours * four), packed(kTaps * fours * four),
            packed_high(kTaps * fours * four);
        const auto interleave = [&](const std::vector<uint8_t>& of, int count, uint8_t flip, bool alone,
                                    std::vector<uint8_t>* to) {
          for (size_t g = 0; g < fours; ++g) {
            const uint8_t* from[4];
            int64_t steps[4];
            for (size_t t = 0; t < beside; ++t) {
              const bool there = beside * g + t < kVertical;
              from[t] = there   ? &of[(beside * g + t) * static_cast<size_t>(count) * step]
                        : alone ? nullptr
                                : none.data();
              steps[t] = there ? static_cast<int64_t>(step) : 0;
            }
            with.interleave(from, steps, count, channels, flip, to->data() + g * four,
                            static_cast<int64_t>(fours * four));
          }
        };
        const auto expect_sums = [&](uint8_t flip, bool wide) {
          std::vector<int32_t> acc(kPoints * step, 11);
          host::ChannelStrip strip;
          strip.columns = columns.data();
          strip.point_step = strip.tap_step = static_cast<int64_t>(fours * four);
          strip.weights = packed.data();
          strip.high = wide ? packed_high.data() : nullptr;
          strip.taps = kTaps;
          strip.fours = static_cast<int>(fours);
          strip.points = kPoints;
          strip.channels = channels;
          strip.acc = acc.data();
          strip.acc_row = static_cast<int64_t>(step);
          with.sum(strip);
          const auto number = [&](uint8_t x) {
            return pairs && flip != 0 ? int{static_cast<int8_t>(x)} : int{x} ^ (pairs ? 0 : flip);
          };
          const auto weight = [&](size_t at) {
            return wide ? int{static_cast<int8_t>(high[at])} * 256 + weights[at]
                        : int{static_cast<int8_t>(weights[at])};
          };
          for (size_t p = 0; p < kPoints; ++p) {
            for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
              int32_t sum = 0;
              for (size_t v = 0; v < kVertical; ++v) {
                for (size_t x = 0; x < kTaps; ++x) {
                  sum +=
                      number(picture[(v * kColumns + p + x) * step + c]) * weight((v * kTaps + x) * step + c);
                }
              }
              ASSERT_EQ(acc[p * step + c], sum) << engine.name << " channel " << c << " of " << channels;
            }
          }
        };
        for (const uint8_t flip : {uint8_t{0x80}, uint8_t{0}}) {
          // Pairs take signed bytes directly, as `flip` states; groups of four bytes are unsigned.
          interleave(picture, kColumns, flip, pairs, &columns);
          interleave(weights, kTaps, pairs ? 0x80 : 0, false, &packed);
          expect_sums(flip, false);
          if (pairs) continue;  // pairs are 16-bit numbers anyway
          interleave(high, kTaps, 0, false, &packed_high);
          expect_sums(flip, true);
        }
      }
    }
  }
}

// Quotients are rounded as after a division, also close to a half.
TEST(Quantise, IsRoundedAsDivisionIs) {
  Random random(9);
  std::uniform_real_distribution<float> scales(1e-4f, 1);
  for (const host::Engine& engine : Engines()) {
    for (int round = 0; round < 2000; ++round) {
      alignas(64) float a[host::kLanes], out[host::kLanes], scale[16], zero[16];
      const float by = round == 0 ? 0x1p-120f : round == 1 ? 0x1p-99f : scales(random), moved = 100;
      for (int i = 0; i < host::kLanes; ++i) {
        a[i] = (static_cast<float>(Between(random, -300, 300)) + 0.5f) * by;
        for (int64_t n = Between(random, -2, 2); n != 0; n += n < 0 ? 1 : -1)
          a[i] = std::nextafterf(a[i], n < 0 ? -1e9f : 1e9f);
      }
      a[0] = 1e38f;
      a[1] = -HUGE_VALF;
      a[2] = HUGE_VALF;
      a[3] = NAN;
      a[4] = -0.0f;
      std::fill(scale, scale + 16, by);
      std::fill(zero, zero + 16, moved);
      host::Inst inst;
      const float range[4] = {0, 255, by, moved};
      std::memcpy(inst.imm.range, range, sizeof(range));
      for (const host::Quantisers& quantise : {engine.quantise, engine.quantise_scaled, engine.quantise_by}) {
        const int lanes = host::kLanes - round % 40;
        uint8_t bytes[host::kLanes] = {};
        quantise.to_floats({out, a, scale, zero}, inst, lanes);
        quantise.to_u8({bytes, a, scale, zero}, inst, lanes);
        for (int i = lanes; i < host::kLanes; ++i) ASSERT_EQ(bytes[i], 0) << engine.name << ": byte " << i;
        for (int i = 0; i < lanes; ++i) {
          const float exact = std::nearbyintf(a[i] / by) + moved;
          const float expected = std::isnan(exact) ? exact : std::fmin(std::fmax(exact, 0.0f), 255.0f);
          ASSERT_TRUE(out[i] == expected || (std::isnan(out[i]) && std::isnan(expected)))
              << engine.name << ": " << a[i] << " / " << by << " gives " << out[i] << ", not " << expected;
          ASSERT_EQ(bytes[i], std::isnan(expected) ? 0 : static_cast<int>(expected))
              << engine.name << ": " << a[i] << " / " << by;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rondo::test
