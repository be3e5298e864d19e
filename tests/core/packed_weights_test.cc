// Packed weights: the numbers of their codes, and the positions of codes and scales that the header states.
#include "core/packed_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace rondo {
namespace {

// The formats' definition by sign, exponent and mantissa. NaN codes may have any value.
TEST(PackedCodes, AreTheNumbersOfTheirFormat) {
  struct Format {
    PackedType type;
    int exponent_bits, mantissa_bits, bias;
    uint32_t first_without;  // below the sign
  };
  const Format kFormats[] = {{PackedType::kE4M3, 4, 3, 7, 0x7f},
                             {PackedType::kE5M2, 5, 2, 15, 0x7c},
                             {PackedType::kE2M1, 2, 1, 1, 8}};
  for (const Format& f : kFormats) {
    const int sign = f.exponent_bits + f.mantissa_bits;
    EXPECT_EQ(BitsOf(f.type), sign + 1);
    for (uint32_t code = 0; code < f.first_without; ++code) {
      const int exponent = static_cast<int>(code >> f.mantissa_bits);
      const double mantissa = static_cast<double>(code % (1u << f.mantissa_bits)) / (1 << f.mantissa_bits);
      const double value =
          exponent == 0 ? std::ldexp(mantissa, 1 - f.bias) : std::ldexp(1 + mantissa, exponent - f.bias);
      EXPECT_EQ(PackedValue(f.type, code), static_cast<float>(value)) << Name(f.type) << " " << code;
      EXPECT_EQ(PackedValue(f.type, code | 1u << sign), static_cast<float>(-value))
          << Name(f.type) << " " << code;
    }
  }
  for (PackedType type : {PackedType::kU2, PackedType::kU4, PackedType::kU8}) {
    for (uint32_t code = 0; code < 1u << BitsOf(type); ++code)
      EXPECT_EQ(PackedValue(type, code), static_cast<float>(code));
  }
}

// The nearest code; if two are equally near, the one that ends in a zero bit.
uint8_t NearestCode(float f, int greatest, float (*value)(uint8_t)) {
  if (std::abs(f) >= value(static_cast<uint8_t>(greatest)))
    return static_cast<uint8_t>(greatest | (std::signbit(f) ? 0x80 : 0));
  int best = 0;
  for (int code = 1; code <= greatest; ++code) {
    const double distance = std::abs(double{value(static_cast<uint8_t>(code))} - std::abs(double{f}));
    const double least = std::abs(double{value(static_cast<uint8_t>(best))} - std::abs(double{f}));
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(f) ? 0x80 : 0));
}

TEST(Fp8, FloatsBecomeTheNearestCode) {
  struct Format {
    uint8_t (*code)(float);
    float (*value)(uint8_t);
    int greatest, infinity;  // codes; in a format without infinity, infinity becomes the largest number
  };
  for (const Format& f :
       {Format{FloatToE4M3, E4M3ToFloat, 0x7e, 0x7e}, Format{FloatToE5M2, E5M2ToFloat, 0x7b, 0x7c}}) {
    std::vector<float> floats = {0, 1e-30f, 1e30f, std::numeric_limits<float>::max()};
    for (int code = 0; code <= f.greatest; ++code) {
      const float value = f.value(static_cast<uint8_t>(code)), next = f.value(static_cast<uint8_t>(code + 1));
      EXPECT_EQ(f.code(value), code);
      const float middle = code < f.greatest ? (value + next) / 2 : value * 1.01f;
      for (const float at : {value, middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e30f)})
        floats.push_back(at);
    }
    for (const float at : floats) {
      EXPECT_EQ(f.code(at), NearestCode(at, f.greatest, f.value)) << at;
      EXPECT_EQ(f.code(-at), NearestCode(-at, f.greatest, f.value)) << at;
    }
    constexpr float kInf = std::numeric_limits<float>::infinity();
    EXPECT_EQ(f.code(kInf), f.infinity);
    EXPECT_EQ(f.code(-kInf), f.infinity | 0x80);
    EXPECT_EQ(f.code(std::numeric_limits<float>::quiet_NaN()), 0x7f);
    EXPECT_TRUE(std::isnan(f.value(0x7f)));
    EXPECT_TRUE(f.infinity == f.greatest || f.value(0xfc) == -kInf);
  }
}

// Goes lane by lane, word by word and pair by pair, as the header lists them.
void ExpectCodesWhereTheHeaderSays(const PackedShape& shape) {
  const int64_t pairs = 16 / shape.bits, in_row = 2 * pairs;  // in a word; in a row's two words
  int64_t bit = 0;                                            // where the next word begins
  for (int64_t tile = 0; tile < shape.tiles(); ++tile) {
    for (int64_t piece = 0; piece < shape.pieces(); ++piece) {
      for (int64_t lane = 0; lane < 32; ++lane) {
        for (int64_t word = 0; word < 4; ++word, bit += 32) {
          const int64_t row = tile * 16 + lane / 4 + word % 2 * 8;
          for (int64_t i = 0; i < pairs; ++i) {
            const int64_t pair = word / 2 * pairs + i;
            const int64_t k = piece * in_row * 8 + pair / 2 * 16 + pair % 2 * 8 + lane % 4 * 2;
            ASSERT_EQ(shape.BitAt(row, k), bit + i * shape.bits) << row << ", " << k;
            ASSERT_EQ(shape.BitAt(row, k + 1), bit + i * shape.bits + 16) << row << ", " << k;
          }
        }
      }
    }
  }
  EXPECT_EQ(shape.bytes() * 8, bit);
}

void ExpectScalesWhereTheHeaderSays(const PackedShape& shape) {
  int64_t at = 0;
  for (int64_t tile = 0; tile < shape.tiles(); ++tile) {
    for (int64_t block = 0; block < shape.blocks(); ++block) {
      for (int64_t g = 0; g < 8; ++g) {
        for (int64_t half = 0; half < 2; ++half, ++at) {
          const int64_t row = tile * 16 + g + half * 8, first = block * shape.block;
          ASSERT_EQ(shape.ScaleAt(row, first), at);
          ASSERT_EQ(shape.ScaleAt(row, std::min(first + shape.block, shape.k) - 1), at);
        }
      }
    }
  }
  EXPECT_EQ(shape.scales(), at);
}

TEST(PackedShapes, HaveEachCodeAndScaleWhereTheHeaderSays) {
  for (const int bits : {2, 4, 8}) {
    for (const int64_t n : {1, 2, 15, 16, 17, 33}) {
      for (const int64_t k : {16, 48, 128, 144, 400}) {
        for (const int64_t block : {int64_t{16}, int64_t{32}, k}) {
          const PackedShape shape = {n, k, block, bits};
          ExpectCodesWhereTheHeaderSays(shape);
          ExpectScalesWhereTheHeaderSays(shape);
          // The range that contracts state covers the whole weight.
          EXPECT_GE((n - 1) * shape.Stride() + k, n > 1 ? shape.bytes() : k);
          EXPECT_GE(shape.covered(), shape.bytes());
          EXPECT_GE(shape.covered(), (n - 1) * shape.Stride() + k);
          EXPECT_GE(shape.scales_covered(), shape.scales());
          EXPECT_GE(shape.scales_covered(), (n - 1) * shape.ScaleStride() + 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace rondo
