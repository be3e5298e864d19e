// Element types of tensors, and conversion between float and narrower floats.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace rondo {

// Stored in plans: append only.
enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kF64 = 3,
  kI64 = 4,
  kI32 = 5,
  kI16 = 6,
  kI8 = 7,
  kU8 = 8,
  kU16 = 9,
  kU32 = 10,
  kU64 = 11,
  kBool = 12,  // one byte, 0 or 1
  kE4M3 = 13,  // FP8 as ONNX's FLOAT8E4M3FN: no infinities, one NaN
  kE5M2 = 14,  // FP8 as FLOAT8E5M2
};
inline constexpr int kNumDTypes = 15;

// Bytes of one element.
constexpr int64_t ByteSize(DType t) {
  constexpr int64_t kBytes[kNumDTypes] = {4, 2, 2, 8, 8, 4, 2, 1, 1, 2, 4, 8, 1, 1, 1};
  return kBytes[static_cast<int>(t)];
}
constexpr bool IsFp8(DType t) { return t == DType::kE4M3 || t == DType::kE5M2; }
constexpr bool IsFloat(DType t) { return static_cast<int>(t) <= static_cast<int>(DType::kF64) || IsFp8(t); }
// "f32", "bf16", "i64", "bool", ...
constexpr const char* Name(DType t) {
  constexpr const char* kNames[kNumDTypes] = {"f32", "f16", "bf16", "f64", "i64",  "i32",  "i16", "i8",
                                              "u8",  "u16", "u32",  "u64", "bool", "e4m3", "e5m2"};
  return kNames[static_cast<int>(t)];
}
constexpr bool ParseDType(std::string_view text, DType* out) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (text == Name(static_cast<DType>(i))) {
      *out = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

inline float BF16ToFloat(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

// Round to nearest, ties to even; NaN stays NaN.
inline uint16_t FloatToBF16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

inline float F16ToFloat(uint16_t h) { return static_cast<float>(std::bit_cast<_Float16>(h)); }
inline uint16_t FloatToF16(float f) { return std::bit_cast<uint16_t>(static_cast<_Float16>(f)); }

// The bit layout of an FP8 type. In both types the smallest positive number is 2^-least.
struct Fp8Format {
  int mantissa;       // bits
  uint32_t bias;      // a float's exponent bias minus this type's
  int least;          // the smallest numbers are 2^-least apart
  uint32_t greatest;  // code of the largest finite number
};
inline constexpr Fp8Format kE4M3Format = {3, 120, 9, 0x7e}, kE5M2Format = {2, 112, 16, 0x7b};

// Free of branches, so that loops over arrays vectorise.
[[gnu::always_inline]] inline float Fp8ToFloat(const Fp8Format& format, uint8_t code) {
  const uint32_t rest = code & 0x7fu, sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t normal = (rest << (23 - format.mantissa)) + (format.bias << 23);
  const float unit = std::bit_cast<float>(static_cast<uint32_t>(127 - format.least) << 23);
  const uint32_t small = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(rest)) * unit);
  const uint32_t size = rest < (1u << format.mantissa) ? small : normal;
  const uint32_t none = rest == format.greatest + 1 && format.mantissa == 2 ? 0x7f800000u : 0x7fc00000u;
  return std::bit_cast<float>((rest > format.greatest ? none : size) | sign);
}

// Rounds to nearest, ties to even. Numbers beyond the largest finite one become it, and so do infinities if
// the type has none. NaN becomes the code 0x7f.
[[gnu::always_inline]] inline uint8_t FloatToFp8(const Fp8Format& format, float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f), size = u & 0x7fffffffu, sign = u >> 24 & 0x80u;
  const int shift = 23 - format.mantissa;
  const uint32_t normal =
      ((size + (1u << (shift - 1)) - 1 + (size >> shift & 1u)) >> shift) - (format.bias << format.mantissa);
  // A float of this magnitude has the smallest FP8 number as its unit in the last place.
  const uint32_t magnitude = static_cast<uint32_t>(127 + 23 - format.least) << 23;
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(size) + std::bit_cast<float>(magnitude)) - magnitude;
  uint32_t code = size < (format.bias + 1) << 23 ? small : normal;
  code = code > format.greatest ? format.greatest : code;
  code = size == 0x7f800000u && format.mantissa == 2 ? format.greatest + 1 : code;
  return static_cast<uint8_t>(size > 0x7f800000u ? 0x7fu : code | sign);
}

inline float E4M3ToFloat(uint8_t code) { return Fp8ToFloat(kE4M3Format, code); }
inline uint8_t FloatToE4M3(float f) { return FloatToFp8(kE4M3Format, f); }
inline float E5M2ToFloat(uint8_t code) { return Fp8ToFloat(kE5M2Format, code); }
inline uint8_t FloatToE5M2(float f) { return FloatToFp8(kE5M2Format, f); }

}  // namespace rondo
