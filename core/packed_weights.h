// Weights in 2, 4 or 8 bits: how their codes and scales lie in memory, for packing, checking and unpacking.
//
// A matrix [n, k] is stored as codes of one PackedType. A weight is (value of the code - zero) * scale. Each
// run of `block` along k has one scale and, if there are zero points, one zero point; zero points are
// integers.
//
// Codes lie in the order in which tensor cores take fragments of 16 rows by 16 of k (mma.m16n8k16's A): tiles
// of 16 rows, each a sequence of pieces of 512 bytes along k. In a piece, lane 4 g + t has 16 bytes: words of
// rows g and g + 8 in turns, each with pairs of codes at k 16 s + 2 t + {0, 1} and 16 s + 8 + 2 t + {0, 1}.
// Pair i of a word has its codes at bits i * bits and i * bits + 16, so that one shift and one mask give
// both. n and k are rounded up to whole pieces; codes in the padding may be anything. Scales and zero points
// lie as [n / 16][blocks][8][2]: rows g and g + 8 side by side.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace rondo {

// Stored in plans: append only.
enum class PackedType : uint8_t {
  kNone = 0,  // not packed
  kU2 = 1,    // unsigned integers; signed ones have their middle as zero point
  kU4 = 2,
  kU8 = 3,
  kE4M3 = 4,  // FP8; a NaN code gives an arbitrary result
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
  // f32, f16 or bf16: a driver may round the weights and the lhs to it. With integer codes it may also
  // convert the lhs to 16-bit fixed point, with an error of 2^-15 of the greatest value in a run of at most
  // 256 along k within one block. With FP8 codes it may convert a bf16 lhs likewise, with an error of 2^-20
  // of the greatest, and round the sum of 32 products by 2^-12 of the greatest of them. No more than that.
  DType dtype = DType::kF32;
  int64_t block = 0;  // numbers along k that share a scale: a multiple of 16, or all of k
  int32_t zero = 0;   // of all blocks, if there are no zero points
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
  // The bit at which the code of (row, k) begins.
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
  // Strides and sizes that make an operand of a contract cover the whole memory: it moves by this much along
  // n, and codes move by 1 along k. In bytes for codes, in scales for scales.
  constexpr int64_t Stride() const { return n > 1 && bytes() > k ? (bytes() - k + n - 2) / (n - 1) : 1; }
  constexpr int64_t ScaleStride() const { return n > 1 ? (scales() + n - 3) / (n - 1) : 1; }
  constexpr int64_t covered() const { return Larger(bytes(), (n - 1) * Stride() + k); }
  constexpr int64_t scales_covered() const { return Larger(scales(), (n - 1) * ScaleStride() + 1); }

 private:
  static constexpr int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }
};

// The number that a code represents.
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
