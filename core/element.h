// Element types of tensors as C++ has them: one row a type, from which conversions, evaluators and file
// formats are made. What the runtime needs of them (bytes, names) is in dtype.h.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace rondo {

enum class DTypeKind : uint8_t { kFloat, kSigned, kUnsigned, kBool };

// In the order of DType.
//   X(NAME, kind, digits, exponent, stored, wide, WIDEN, NARROW)
// digits: bits of a float's significand, its hidden one among them; of an integer's magnitude. exponent: bits
// of a float's. stored: what memory holds; wide: what computes with it. WIDEN and NARROW make one of x, the
// other: floats round to nearest even, integers wrap.
#define RONDO_DTYPES(X)                                                                         \
  X(F32, kFloat, 24, 8, float, float, x, x)                                                     \
  X(F16, kFloat, 11, 5, uint16_t, float, F16ToFloat(x), FloatToF16(x))                          \
  X(BF16, kFloat, 8, 8, uint16_t, float, BF16ToFloat(x), FloatToBF16(x))                        \
  X(F64, kFloat, 53, 11, double, double, x, x)                                                  \
  X(I64, kSigned, 63, 0, int64_t, int64_t, x, x)                                                \
  X(I32, kSigned, 31, 0, int32_t, int64_t, x, x)                                                \
  X(I16, kSigned, 15, 0, int16_t, int64_t, x, x)                                                \
  X(I8, kSigned, 7, 0, int8_t, int64_t, x, x)                                                   \
  X(U8, kUnsigned, 8, 0, uint8_t, int64_t, x, x)                                                \
  X(U16, kUnsigned, 16, 0, uint16_t, int64_t, x, x)                                             \
  X(U32, kUnsigned, 32, 0, uint32_t, int64_t, x, x)                                             \
  X(U64, kUnsigned, 64, 0, uint64_t, int64_t, x, x)                                             \
  X(Bool, kBool, 1, 0, uint8_t, int64_t, x != 0, x != 0)                                        \
  /* FP8 as ONNX's FLOAT8E4M3FN (no infinities, one code that is NaN) and FLOAT8E5M2. */        \
  X(E4M3, kFloat, 4, 4, uint8_t, float, Fp8ToFloat(kE4M3Format, x), FloatToFp8(kE4M3Format, x)) \
  X(E5M2, kFloat, 3, 5, uint8_t, float, Fp8ToFloat(kE5M2Format, x), FloatToFp8(kE5M2Format, x))

struct DTypeFacts {
  DTypeKind kind;
  uint8_t digits, exponent;
};
inline constexpr DTypeFacts kDTypes[] = {
#define RONDO_DTYPE(name, kind, digits, exponent, ...) {DTypeKind::kind, digits, exponent},
    RONDO_DTYPES(RONDO_DTYPE)
#undef RONDO_DTYPE
};
static_assert(sizeof(kDTypes) / sizeof(kDTypes[0]) == kNumDTypes);
constexpr const DTypeFacts& FactsOf(DType t) { return kDTypes[static_cast<int>(t)]; }

// f16 and bf16.
constexpr bool Is16BitFloat(DType t) { return IsFloat(t) && ByteSize(t) == 2; }

// What memory holds of a type, what computes with it, and how one becomes the other.
template <DType kType>
struct Element;
#define RONDO_DTYPE(name, kind, digits, exponent, stored, wide, WIDEN, NARROW)                  \
  template <>                                                                                   \
  struct Element<DType::k##name> {                                                              \
    static constexpr DType kType = DType::k##name;                                              \
    using Stored = stored;                                                                      \
    using Wide = wide;                                                                          \
    static_assert(sizeof(Stored) == ByteSize(kType) &&                                          \
                  IsFloat(kType) == (DTypeKind::kind == DTypeKind::kFloat));                    \
    [[gnu::always_inline]] static Wide Widen(Stored x) { return static_cast<Wide>(WIDEN); }     \
    [[gnu::always_inline]] static Stored Narrow(Wide x) { return static_cast<Stored>(NARROW); } \
  };
RONDO_DTYPES(RONDO_DTYPE)
#undef RONDO_DTYPE

// What `f` makes of Element<t>(). A type that is unknown is taken for bytes.
template <typename F>
[[gnu::always_inline]] inline decltype(auto) WithElement(DType t, F&& f) {
  switch (t) {
#define RONDO_DTYPE(name, ...) \
  case DType::k##name: return f(Element<DType::k##name>());
    RONDO_DTYPES(RONDO_DTYPE)
#undef RONDO_DTYPE
  }
  return f(Element<DType::kU8>());
}

}  // namespace rondo
