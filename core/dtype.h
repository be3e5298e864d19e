// Element types of tensors, and conversion between 16-bit floats and float.
#ifndef RONDO_CORE_DTYPE_H_
#define RONDO_CORE_DTYPE_H_

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
};
inline constexpr int kNumDTypes = 13;

// Bytes of one element.
constexpr int64_t ByteSize(DType t) {
  constexpr int64_t kBytes[kNumDTypes] = {4, 2, 2, 8, 8, 4, 2, 1, 1, 2, 4, 8, 1};
  return kBytes[static_cast<int>(t)];
}
constexpr bool IsFloat(DType t) { return static_cast<int>(t) <= static_cast<int>(DType::kF64); }
// "f32", "bf16", "i64", "bool", ...
constexpr const char* Name(DType t) {
  constexpr const char* kNames[kNumDTypes] = {"f32", "f16", "bf16", "f64", "i64", "i32", "i16",
                                              "i8",  "u8",  "u16",  "u32", "u64", "bool"};
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

}  // namespace rondo

#endif  // RONDO_CORE_DTYPE_H_
