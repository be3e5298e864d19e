// The definition of every arithmetic TapeOp (core/kernel.h), one scalar at a time: the semantics of ONNX
// made total, so that no input is undefined behaviour.
//
// The compiler's constant evaluator and the host driver's plain paths call these functions; vectorised
// and generated code must agree with them (floats: up to the accuracy of the transcendental functions).
// T is float (kF32), double (kF64) or int64_t (kI64). Integer arithmetic wraps modulo 2^64. Functions of
// the real line applied to integers go through double. Pure; safe from any thread.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/element.h"
#include "core/kernel.h"

namespace rondo::scalar {

template <typename T>
inline constexpr bool kIsInt = std::is_same_v<T, int64_t>;

// ------------------------------------------------------------------------------------ conversion

// Truncates toward zero; out of range gives the nearest representable value; NaN gives 0.
template <typename F>
inline int64_t FloatToInt(F x) {
  if (!(x == x)) return 0;
  if (x >= static_cast<F>(9223372036854775808.0)) return std::numeric_limits<int64_t>::max();
  if (x < static_cast<F>(-9223372036854775808.0)) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

// The same for u64, as the bits of an int64_t.
template <typename F>
inline int64_t FloatToUnsigned(F x) {
  constexpr F kHalf = static_cast<F>(9223372036854775808.0);
  if (x < kHalf) return FloatToInt(x);  // a negative value wraps like every other integer conversion
  if (!(x == x)) return 0;
  if (x >= 2 * kHalf) return -1;
  return static_cast<int64_t>(static_cast<uint64_t>(x));
}

// One tape type to another.
template <typename To, typename From>
inline To Convert(From x) {
  if constexpr (kIsInt<To> && !kIsInt<From>) {
    return FloatToInt(x);
  } else {
    return static_cast<To>(x);
  }
}

// An integer wrapped to `to` (bool: whether it is not 0). Float dtypes leave it alone.
inline int64_t WrapInt(int64_t x, DType to) {
  return WithElement(to, [&](auto element) {
    if constexpr (kIsInt<typename decltype(element)::Wide>) {
      return element.Widen(element.Narrow(x));
    } else {
      return x;
    }
  });
}

// Rounds to the precision of `to` where it is a narrower float, wraps where it is an integer.
template <typename T>
inline T RoundTo(T x, DType to) {
  if constexpr (kIsInt<T>) {
    return WrapInt(x, to);
  } else {
    return WithElement(to, [&](auto element) {
      using Wide = typename decltype(element)::Wide;
      if constexpr (kIsInt<Wide>) {
        return x;
      } else {
        return static_cast<T>(element.Widen(element.Narrow(static_cast<Wide>(x))));
      }
    });
  }
}

// TapeOp::kCast: converts `x` to tape type To, then to the precision or width of `to`. A float becomes a bool
// by comparison with 0, before any truncation, so 0.5 and NaN are true.
template <typename To, typename From>
inline To Cast(From x, DType to) {
  if constexpr (kIsInt<To> && !kIsInt<From>) {
    if (to == DType::kBool) return x != 0 ? 1 : 0;
    if (to == DType::kU64) return FloatToUnsigned(x);
  }
  return RoundTo(Convert<To>(x), to);
}

// Element `index` of an array of `dtype`, widened to T, the natural tape type of `dtype`.
template <typename T>
inline T Load(DType dtype, const void* data, int64_t index) {
  return WithElement(dtype, [&](auto element) {
    typename decltype(element)::Stored stored;
    std::memcpy(&stored, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(stored)),
                sizeof(stored));
    return static_cast<T>(element.Widen(stored));
  });
}

// Narrows x to `dtype` and writes element `index`: floats round to nearest even, integers wrap.
template <typename T>
inline void Store(DType dtype, void* data, int64_t index, T x) {
  WithElement(dtype, [&](auto element) {
    using E = decltype(element);
    typename E::Stored stored = 0;
    if constexpr (E::kType == DType::kBool) {
      stored = x != 0;
    } else {
      stored = E::Narrow(Convert<typename E::Wide>(x));
    }
    std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(stored)), &stored,
                sizeof(stored));
  });
}

// ------------------------------------------------------------------------------------- arithmetic

inline int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t WrapNeg(int64_t a) { return static_cast<int64_t>(0 - static_cast<uint64_t>(a)); }

// Division by zero gives 0; the one overflow (least / -1) wraps.
inline int64_t IntDiv(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? WrapNeg(a) : a / b; }
inline int64_t IntFmod(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

// Exact modulo 2^64; a negative exponent gives the truncated reciprocal power (0 unless a is 1 or -1).
inline int64_t IntPow(int64_t a, int64_t b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? ((b & 1) ? -1 : 1) : 0;
  int64_t r = 1;
  for (; b != 0; b >>= 1, a = WrapMul(a, a)) {
    if (b & 1) r = WrapMul(r, a);
  }
  return r;
}

template <typename T>
inline T Sigmoid(T x) {
  return x >= 0 ? T(1) / (T(1) + std::exp(-x)) : std::exp(x) / (T(1) + std::exp(x));
}

// Ops of OpClass::kUnary and kBitUnary.
template <typename T>
inline T Unary(TapeOp op, T x) {
  if constexpr (kIsInt<T>) {
    switch (op) {
      case TapeOp::kNeg: return WrapNeg(x);
      case TapeOp::kAbs: return x < 0 ? WrapNeg(x) : x;
      case TapeOp::kSign: return x > 0 ? 1 : x < 0 ? -1 : 0;
      case TapeOp::kFloor:
      case TapeOp::kCeil:
      case TapeOp::kRound:
      case TapeOp::kTrunc: return x;
      case TapeOp::kReciprocal: return IntDiv(1, x);
      case TapeOp::kBitNot: return ~x;
      default: return FloatToInt(Unary<double>(op, static_cast<double>(x)));
    }
  } else {
    switch (op) {
      case TapeOp::kNeg: return -x;
      case TapeOp::kAbs: return std::fabs(x);
      case TapeOp::kSign: return x > 0 ? T(1) : x < 0 ? T(-1) : x == 0 ? T(0) : x;
      case TapeOp::kFloor: return std::floor(x);
      case TapeOp::kCeil: return std::ceil(x);
      case TapeOp::kRound: return std::nearbyint(x);
      case TapeOp::kTrunc: return std::trunc(x);
      case TapeOp::kSqrt: return std::sqrt(x);
      case TapeOp::kReciprocal: return T(1) / x;
      case TapeOp::kExp: return std::exp(x);
      case TapeOp::kLog: return std::log(x);
      case TapeOp::kSin: return std::sin(x);
      case TapeOp::kCos: return std::cos(x);
      case TapeOp::kTan: return std::tan(x);
      case TapeOp::kAsin: return std::asin(x);
      case TapeOp::kAcos: return std::acos(x);
      case TapeOp::kAtan: return std::atan(x);
      case TapeOp::kSinh: return std::sinh(x);
      case TapeOp::kCosh: return std::cosh(x);
      case TapeOp::kTanh: return std::tanh(x);
      case TapeOp::kAsinh: return std::asinh(x);
      case TapeOp::kAcosh: return std::acosh(x);
      case TapeOp::kAtanh: return std::atanh(x);
      case TapeOp::kErf: return std::erf(x);
      case TapeOp::kSigmoid: return Sigmoid(x);
      case TapeOp::kRsqrt: return T(1) / std::sqrt(x);
      case TapeOp::kLog1p: return std::log1p(x);
      case TapeOp::kExpm1:
        return std::expm1(x);
        RONDO_OPS_NOT_UNARY(RONDO_OP_CASE)
        RONDO_BIT_UNARY_OPS(RONDO_OP_CASE) return x;
    }
    return x;
  }
}

// Ops of OpClass::kBinary and kBitBinary.
template <typename T>
inline T Binary(TapeOp op, T a, T b) {
  if constexpr (kIsInt<T>) {
    switch (op) {
      case TapeOp::kAdd: return WrapAdd(a, b);
      case TapeOp::kSub: return WrapAdd(a, WrapNeg(b));
      case TapeOp::kMul: return WrapMul(a, b);
      case TapeOp::kDiv: return IntDiv(a, b);
      case TapeOp::kPow: return IntPow(a, b);
      case TapeOp::kMin: return a < b ? a : b;
      case TapeOp::kMax: return a > b ? a : b;
      case TapeOp::kMod: {
        int64_t r = IntFmod(a, b);
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
      }
      case TapeOp::kFmod: return IntFmod(a, b);
      case TapeOp::kBitAnd: return a & b;
      case TapeOp::kBitOr: return a | b;
      case TapeOp::kBitXor: return a ^ b;
      case TapeOp::kShl: return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
      case TapeOp::kShr: return b < 0 || b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) >> b);
      case TapeOp::kAtan2:
        return FloatToInt(std::atan2(static_cast<double>(a), static_cast<double>(b)));
        RONDO_OPS_NOT_BINARY(RONDO_OP_CASE) return a;
    }
    return a;
  } else {
    switch (op) {
      case TapeOp::kAdd: return a + b;
      case TapeOp::kSub: return a - b;
      case TapeOp::kMul: return a * b;
      case TapeOp::kDiv: return a / b;
      case TapeOp::kPow: return std::pow(a, b);
      case TapeOp::kMin: return a != a ? a : b != b ? b : a < b ? a : b;
      case TapeOp::kMax: return a != a ? a : b != b ? b : a > b ? a : b;
      case TapeOp::kMod: {
        T r = std::fmod(a, b);
        if (r == 0) return std::copysign(r, b);
        return (r < 0) != (b < 0) ? r + b : r;
      }
      case TapeOp::kFmod: return std::fmod(a, b);
      case TapeOp::kAtan2:
        return std::atan2(a, b);
        RONDO_OPS_NOT_BINARY(RONDO_OP_CASE)
        RONDO_BIT_BINARY_OPS(RONDO_OP_CASE) return a;
    }
    return a;
  }
}

// kLess, kLessEqual, kEqual: 0 or 1.
template <typename T>
inline int64_t Compare(TapeOp op, T a, T b) {
  switch (op) {
    case TapeOp::kLess: return a < b;
    case TapeOp::kLessEqual: return a <= b;
    default: return a == b;
  }
}

// Ops of OpClass::kTest: 0 or 1. `which` is kIsInf's imm.i.
template <typename T>
inline int64_t Test(TapeOp op, T x, int64_t which) {
  if (op == TapeOp::kNot) return x == 0;
  if constexpr (kIsInt<T>) {
    return 0;
  } else {
    if (op == TapeOp::kIsNan) return x != x;
    constexpr T kInf = std::numeric_limits<T>::infinity();
    return ((which & 1) != 0 && x == kInf) || ((which & 2) != 0 && x == -kInf);
  }
}

// a * b + c; floats may be rounded once or twice.
template <typename T>
inline T Fma(T a, T b, T c) {
  if constexpr (kIsInt<T>) {
    return WrapAdd(WrapMul(a, b), c);
  } else {
    return a * b + c;
  }
}

// One step of kReduceSum, kReduceProd, kReduceMax or kReduceMin, and below it the initial value.
template <typename T>
inline T ReduceStep(TapeOp op, T acc, T x) {
  switch (op) {
    case TapeOp::kReduceSum: return Binary(TapeOp::kAdd, acc, x);
    case TapeOp::kReduceProd: return Binary(TapeOp::kMul, acc, x);
    case TapeOp::kReduceMax: return Binary(TapeOp::kMax, acc, x);
    default: return Binary(TapeOp::kMin, acc, x);
  }
}
template <typename T>
inline T ReduceStart(TapeOp op) {
  switch (op) {
    case TapeOp::kReduceProd: return T(1);
    case TapeOp::kReduceMax:
      return kIsInt<T> ? std::numeric_limits<T>::min() : -std::numeric_limits<T>::infinity();
    case TapeOp::kReduceMin:
      return kIsInt<T> ? std::numeric_limits<T>::max() : std::numeric_limits<T>::infinity();
    default: return T(0);
  }
}

// One step of kCombineMax or kCombineMin. Floats are ordered as integers by their bits (-0 is less than 0),
// so the result has the same bits in whatever order points come. NaN stays once met, as the greatest (or
// least) of all bit patterns. `cell` is a number, or NaN with that sign.
inline float Combined(TapeOp op, float cell, float x) {
  const bool max = op == TapeOp::kCombineMax;
  const uint32_t nan = max ? 0x7fffffffu : 0xffffffffu;
  const uint32_t old = std::bit_cast<uint32_t>(cell), bits = x != x ? nan : std::bit_cast<uint32_t>(x);
  const int32_t old_int = static_cast<int32_t>(old), bits_int = static_cast<int32_t>(bits);
  // Negative floats: greater bits mean smaller numbers.
  const bool takes = (max == (bits_int >= 0)) ? (max ? bits_int > old_int : bits > old)
                                              : (max ? bits < old : bits_int < old_int);
  return takes ? std::bit_cast<float>(bits) : cell;
}

// ------------------------------------------------------------------------------- one instruction

// A register of a tape; the member in use is that of its TapeType.
union Value {
  int64_t i64 = 0;
  double f64;
  float f32;
};
template <typename T>
inline T& As(Value& v) {
  if constexpr (kIsInt<T>) {
    return v.i64;
  } else if constexpr (std::is_same_v<T, double>) {
    return v.f64;
  } else {
    return v.f32;
  }
}
template <typename T>
inline Value Of(T x) {
  Value v;
  As<T>(v) = x;
  return v;
}

// Calls f with a zero of the C++ type of `type`.
template <typename F>
inline Value WithType(TapeType type, F f) {
  switch (type) {
    case TapeType::kF32: return f(0.0f);
    case TapeType::kF64: return f(0.0);
    default: return f(int64_t{0});
  }
}

inline Value LoadValue(DType dtype, const void* data, int64_t index) {
  return WithType(NaturalType(dtype),
                  [&](auto zero) { return Of(Load<decltype(zero)>(dtype, data, index)); });
}
inline void StoreValue(DType dtype, void* data, int64_t index, Value v) {
  WithType(NaturalType(dtype), [&](auto zero) {
    Store(dtype, data, index, As<decltype(zero)>(v));
    return v;
  });
}

// The result of one arithmetic instruction (kConst, or an op that is neither leaf nor effect). `operand_type`
// is the type of the register that inst.a names; for ops whose operands have the result's type it equals
// inst.type.
inline Value Eval(const TapeInst& inst, TapeType operand_type, Value a, Value b, Value c) {
  const auto by_operand = [&](auto f) { return WithType(operand_type, f); };
  const auto by_result = [&](auto f) { return WithType(inst.type, f); };
  switch (ClassOf(inst.op)) {
    case OpClass::kUnary:
    case OpClass::kBitUnary: return by_result([&](auto t) { return Of(Unary(inst.op, As<decltype(t)>(a))); });
    case OpClass::kTest:
      return by_operand([&](auto t) { return Of(Test(inst.op, As<decltype(t)>(a), inst.imm.i)); });
    case OpClass::kCast:
      return by_result([&](auto to) {
        return by_operand([&](auto from) {
          return Of(Cast<decltype(to)>(As<decltype(from)>(a), static_cast<DType>(inst.imm.i)));
        });
      });
    case OpClass::kBinary:
    case OpClass::kBitBinary:
      return by_result([&](auto t) { return Of(Binary(inst.op, As<decltype(t)>(a), As<decltype(t)>(b))); });
    case OpClass::kCompare:
      return by_operand([&](auto t) { return Of(Compare(inst.op, As<decltype(t)>(a), As<decltype(t)>(b))); });
    case OpClass::kSelect: return a.i64 != 0 ? b : c;
    case OpClass::kTernary:
      return by_result([&](auto t) {
        using T = decltype(t);
        return Of(Fma(As<T>(a), As<T>(b), As<T>(c)));
      });
    case OpClass::kLeaf:
      return by_result([&](auto t) {
        using T = decltype(t);
        if constexpr (kIsInt<T>) return Of(inst.imm.i);
        return Of(static_cast<T>(inst.imm.f));
      });
    case OpClass::kEffect:
    case OpClass::kUnknown: break;
  }
  return a;
}

}  // namespace rondo::scalar
