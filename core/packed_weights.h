// Weights in 2, 4 or 8 bits: how their numbers lie in memory, for whoever packs, checks or unpacks them.
//
// A matrix [n, k] is codes of one PackedType. The weight is (value of the code - zero) * scale, with a scale
// (and where there are any, a zero point) for each run of `block` along k; zero points are whole numbers.
// Codes lie in the order in which tensor cores take fragments of 16 rows and 16 of k (mma.m16n8k16's A):
// tiles of 16 rows, in each of them pieces of 512 bytes one after another along k. Of a piece, lane 4 g + t
// has 16 bytes: words of the rows g and g + 8 by turns, each with pairs of codes at k 16 s + 2 t + {0, 1} and
// 16 s + 8 + 2 t + {0, 1}. Pair i of a word has its codes at the bits i * bits and i * bits + 16, so that a
// shift and a mask give both at once. n and k are rounded up to whole pieces; codes there may be anything.
// Scales and zero points lie as [n / 16][blocks][8][2]: rows g and g + 8 side by side.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace rondo {

// Stored in plans: append only.
enum class PackedType : uint8_t {
  kNone = 0,  // not packed
  kU2 = 1,    // whole numbers; signed ones have their middle as zero point
  kU4 = 2,
  kU8 = 3,
  kE4M3 = 4,  // FP8; a code that is NaN gives any result
  kE5M2 = 5,
  kE2M1 = 6,  // FP4
};
inline constexpr int kNumPackedTypes = 7;

constexpr int BitsOf(PackedType type) {
  constexpr int kBits[kNumPackedTypes] = {0, 2, 4, 8, 8, 8, 4};
  return kBits[static_cast<int>(type)];
}
constexpr const char* Name(PackedType type) {
  constexpr const char* kNames[kNumPackedTypes] = {"none", "int2", "int4", "int8", "e4m3", "e5m2", "e2m1"};
  return kNames[static_cast<int>(type)];
}

// How the weights of a part are packed, plain data.
struct PackedWeights {
  PackedType type = PackedType::kNone;
  // f32, f16 or bf16: a driver may round weights and the other factor to it. Of whole numbers it may also
  // take the other factor in 16 bits of fixed point: less or more by 2^-15 of the greatest in a run of at
  // most 256 along k, which lies within one block. Of FP8 it may take bf16 so, by 2^-20 of the greatest, and
  // round what 32 products add up to by 2^-12 of the greatest of them. No further.
  DType dtype = DType::kF32;
  int64_t block = 0;  // numbers along k that share a scale: a multiple of 16, or all
  int32_t zero = 0;   // of all blocks, where there are no zero points
};

struct PackedShape {
  int64_t n = 0, k = 0, block = 0;
  int bits = 0;

  constexpr int64_t tiles() const { return (n + 15) / 16; }
  constexpr int64_t piece() const { return 256 / bits; }  // numbers along k
  constexpr int64_t pieces() const { return (k + piece() - 1) / piece(); }
  constexpr int64_t blocks() const { return (k + block - 1) / block; }
  constexpr int64_t bytes() const { return tiles() * pieces() * 512; }
  constexpr int64_t scales() const { return tiles() * blocks() * 16; }
  // The bit at which the code of a row and a k begins.
  constexpr int64_t BitAt(int64_t row, int64_t at) const {
    const int64_t in = at % piece(), word = 128 / bits, slice = in % word / 16;
    const int64_t lane = row % 8 * 4 + at % 8 / 2;
    const int64_t place =
        ((row / 16 * pieces() + at / piece()) * 32 + lane) * 16 + in / word * 8 + row % 16 / 8 * 4;
    return place * 8 + bits * (2 * slice + at % 16 / 8) + at % 2 * 16;
  }
  constexpr int64_t ScaleAt(int64_t row, int64_t at) const {
    return (row / 16 * blocks() + at / block) * 16 + row % 8 * 2 + row % 16 / 8;
  }
  // What contracts say of the memory: an operand that moves by so much with n (and by 1 with k, of codes)
  // covers it. Bytes, and scales.
  constexpr int64_t Stride() const { return n > 1 && bytes() > k ? (bytes() - k + n - 2) / (n - 1) : 1; }
  constexpr int64_t ScaleStride() const { return n > 1 ? (scales() + n - 3) / (n - 1) : 1; }
  constexpr int64_t covered() const { return Larger(bytes(), (n - 1) * Stride() + k); }
  constexpr int64_t scales_covered() const { return Larger(scales(), (n - 1) * ScaleStride() + 1); }

 private:
  static constexpr int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }
};

// The number that a code stands for.
constexpr float PackedValue(PackedType type, uint32_t code) {
  if (type <= PackedType::kU8) return static_cast<float>(code);
  const int mantissa = type == PackedType::kE4M3 ? 3 : type == PackedType::kE5M2 ? 2 : 1;
  const int bits = BitsOf(type), bias = type == PackedType::kE4M3 ? 7 : type == PackedType::kE5M2 ? 15 : 1;
  const int exponent = static_cast<int>(code >> mantissa) & ((1 << (bits - 1 - mantissa)) - 1);
  float value = static_cast<float>(code & ((1u << mantissa) - 1)) / static_cast<float>(1 << mantissa);
  if (exponent > 0) value += 1;
  const int power = (exponent > 0 ? exponent : 1) - bias;
  value = power < 0 ? value / static_cast<float>(1 << -power) : value * static_cast<float>(1 << power);
  return (code >> (bits - 1) & 1) != 0 ? -value : value;
}

}  // namespace rondo
