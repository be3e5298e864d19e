// Arithmetic instructions over the lanes of a tile.
#include "core/scalar.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/exec/math.h"

namespace rondo::host::RONDO_ISA {
namespace {

template <typename T>
struct TypeOf {
  using type = T;
};

// Registers have room for kLanes, a multiple of 16, so full vectors may be computed past the last lane.
int Whole(int n) { return (n + 15) & ~15; }

// Functions of the C library are called for the lanes that exist; everything else for whole vectors.
constexpr bool CallsLibrary(TapeOp op, bool f32) {
  switch (op) {
    case TapeOp::kExp:
    case TapeOp::kLog:
    case TapeOp::kTanh:
    case TapeOp::kErf:
    case TapeOp::kSigmoid: return !f32;
    case TapeOp::kSin:
    case TapeOp::kCos:
    case TapeOp::kTan:
    case TapeOp::kAsin:
    case TapeOp::kAcos:
    case TapeOp::kAtan:
    case TapeOp::kSinh:
    case TapeOp::kCosh:
    case TapeOp::kAsinh:
    case TapeOp::kAcosh:
    case TapeOp::kAtanh:
    case TapeOp::kLog1p:
    case TapeOp::kExpm1:
    case TapeOp::kPow:
    case TapeOp::kMod:
    case TapeOp::kFmod:
    case TapeOp::kAtan2: return true;
    default: return false;
  }
}

template <TapeOp kOp, typename T>
inline T UnaryLane(T x) {
  if constexpr (sizeof(T) == 4) {
    if constexpr (kOp == TapeOp::kExp) return ExpF(x);
    if constexpr (kOp == TapeOp::kLog) return LogF(x);
    if constexpr (kOp == TapeOp::kTanh) return TanhF(x);
    if constexpr (kOp == TapeOp::kErf) return ErfF(x);
    if constexpr (kOp == TapeOp::kSigmoid) return SigmoidF(x);
  }
  return scalar::Unary<T>(kOp, x);
}

template <TapeOp kOp, typename T>
[[gnu::flatten]] void UnaryOp(const Registers& r, const Inst&, int n) {
  T* out = static_cast<T*>(r.out);
  const T* a = static_cast<const T*>(r.a);
  const int end = CallsLibrary(kOp, sizeof(T) == 4) ? n : Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = UnaryLane<kOp, T>(a[i]);
}

// sin and cos of f32: vectors, unless some lane is too large for the short reduction.
template <int kQuarter>
[[gnu::flatten]] void TrigOp(const Registers& r, const Inst&, int n) {
  float* out = static_cast<float*>(r.out);
  const float* a = static_cast<const float*>(r.a);
  int outside = 0;
  for (int i = 0; i < n; ++i) outside |= !(AbsF(a[i]) <= kTrigLimit);
  if (outside != 0) {
    for (int i = 0; i < n; ++i) out[i] = kQuarter == 0 ? std::sin(a[i]) : std::cos(a[i]);
    return;
  }
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = SinQuarter(a[i], kQuarter);
}

template <TapeOp kOp, typename T>
[[gnu::flatten]] void BinaryOp(const Registers& r, const Inst&, int n) {
  T* out = static_cast<T*>(r.out);
  const T* a = static_cast<const T*>(r.a);
  const T* b = static_cast<const T*>(r.b);
  const int end = CallsLibrary(kOp, sizeof(T) == 4) ? n : Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = scalar::Binary<T>(kOp, a[i], b[i]);
}

template <TapeOp kOp, typename T>
[[gnu::flatten]] void CompareOp(const Registers& r, const Inst&, int n) {
  int64_t* out = static_cast<int64_t*>(r.out);
  const T* a = static_cast<const T*>(r.a);
  const T* b = static_cast<const T*>(r.b);
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = scalar::Compare<T>(kOp, a[i], b[i]);
}

template <TapeOp kOp, typename T>
[[gnu::flatten]] void ClassifyOp(const Registers& r, const Inst& inst, int n) {
  int64_t* out = static_cast<int64_t*>(r.out);
  const T* a = static_cast<const T*>(r.a);
  const int64_t which = inst.imm.i;
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = scalar::Classify<T>(kOp, a[i], which);
}

// Logical not of a float as a kI64.
template <typename T>
void NotOp(const Registers& r, const Inst&, int n) {
  int64_t* out = static_cast<int64_t*>(r.out);
  const T* a = static_cast<const T*>(r.a);
  for (int i = 0; i < n; ++i) out[i] = a[i] == 0;
}

template <typename T>
void SelectOp(const Registers& r, const Inst&, int n) {
  T* out = static_cast<T*>(r.out);
  const int64_t* a = static_cast<const int64_t*>(r.a);
  const T* b = static_cast<const T*>(r.b);
  const T* c = static_cast<const T*>(r.c);
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = a[i] != 0 ? b[i] : c[i];
}

template <typename T>
[[gnu::flatten]] void FmaOp(const Registers& r, const Inst&, int n) {
  T* out = static_cast<T*>(r.out);
  const T* a = static_cast<const T*>(r.a);
  const T* b = static_cast<const T*>(r.b);
  const T* c = static_cast<const T*>(r.c);
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = scalar::Fma<T>(a[i], b[i], c[i]);
}

void AddClampOp(const Registers& r, const Inst& inst, int n) {
  float* out = static_cast<float*>(r.out);
  const float* a = static_cast<const float*>(r.a);
  const float* b = static_cast<const float*>(r.b);
  const float low = inst.imm.range[0], high = inst.imm.range[1];
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) {
    const float x = a[i] + b[i];
    const float y = x < low ? low : x;
    out[i] = y > high ? high : y;
  }
}

template <typename T>
void ConstOp(const Registers& r, const Inst& inst, int) {
  T* out = static_cast<T*>(r.out);
  const T value =
      sizeof(T) == 8 && scalar::kIsInt<T> ? static_cast<T>(inst.imm.i) : static_cast<T>(inst.imm.f);
  for (int i = 0; i < kLanes; ++i) out[i] = value;
}

// One loop for each dtype that is narrower than the register.
template <typename T>
[[gnu::flatten]] void RoundLanes(T* x, DType to, int n) {
  auto each = [&](auto dtype) {
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) x[i] = scalar::RoundTo<T>(x[i], decltype(dtype)::value);
  };
  switch (to) {
    case DType::kF32: return sizeof(T) == 8 ? each(std::integral_constant<DType, DType::kF32>()) : void();
    case DType::kF16: return each(std::integral_constant<DType, DType::kF16>());
    case DType::kBF16: return each(std::integral_constant<DType, DType::kBF16>());
    case DType::kI32: return each(std::integral_constant<DType, DType::kI32>());
    case DType::kI16: return each(std::integral_constant<DType, DType::kI16>());
    case DType::kI8: return each(std::integral_constant<DType, DType::kI8>());
    case DType::kU8: return each(std::integral_constant<DType, DType::kU8>());
    case DType::kU16: return each(std::integral_constant<DType, DType::kU16>());
    case DType::kU32: return each(std::integral_constant<DType, DType::kU32>());
    case DType::kBool: return each(std::integral_constant<DType, DType::kBool>());
    default: return;
  }
}

template <typename To, typename From>
[[gnu::flatten]] void CastOp(const Registers& r, const Inst& inst, int n) {
  To* out = static_cast<To*>(r.out);
  const From* a = static_cast<const From*>(r.a);
  const DType to = static_cast<DType>(inst.imm.i);
  if (scalar::kIsInt<To> && !scalar::kIsInt<From> && (to == DType::kBool || to == DType::kU64)) {
    for (int i = 0; i < n; ++i) out[i] = scalar::Cast<To, From>(a[i], to);
    return;
  }
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = scalar::Convert<To, From>(a[i]);
  RoundLanes(out, to, n);
}

template <typename T>
OpFn FindUnary(TapeOp op) {
  switch (op) {
#define RONDO_UNARY(name) \
  case TapeOp::name: return UnaryOp<TapeOp::name, T>;
    RONDO_UNARY(kNeg)
    RONDO_UNARY(kAbs)
    RONDO_UNARY(kSign)
    RONDO_UNARY(kFloor)
    RONDO_UNARY(kCeil)
    RONDO_UNARY(kRound)
    RONDO_UNARY(kTrunc)
    RONDO_UNARY(kSqrt)
    RONDO_UNARY(kReciprocal)
    RONDO_UNARY(kExp)
    RONDO_UNARY(kLog)
    RONDO_UNARY(kSin)
    RONDO_UNARY(kCos)
    RONDO_UNARY(kTan)
    RONDO_UNARY(kAsin)
    RONDO_UNARY(kAcos)
    RONDO_UNARY(kAtan)
    RONDO_UNARY(kSinh)
    RONDO_UNARY(kCosh)
    RONDO_UNARY(kTanh)
    RONDO_UNARY(kAsinh)
    RONDO_UNARY(kAcosh)
    RONDO_UNARY(kAtanh)
    RONDO_UNARY(kErf)
    RONDO_UNARY(kSigmoid)
    RONDO_UNARY(kNot)
    RONDO_UNARY(kBitNot)
    RONDO_UNARY(kRsqrt)
    RONDO_UNARY(kLog1p)
    RONDO_UNARY(kExpm1)
#undef RONDO_UNARY
    default: return nullptr;
  }
}

template <typename T>
OpFn FindBinary(TapeOp op) {
  switch (op) {
#define RONDO_BINARY(name) \
  case TapeOp::name: return BinaryOp<TapeOp::name, T>;
    RONDO_BINARY(kAdd)
    RONDO_BINARY(kSub)
    RONDO_BINARY(kMul)
    RONDO_BINARY(kDiv)
    RONDO_BINARY(kPow)
    RONDO_BINARY(kMin)
    RONDO_BINARY(kMax)
    RONDO_BINARY(kMod)
    RONDO_BINARY(kFmod)
    RONDO_BINARY(kBitAnd)
    RONDO_BINARY(kBitOr)
    RONDO_BINARY(kBitXor)
    RONDO_BINARY(kShl)
    RONDO_BINARY(kShr)
    RONDO_BINARY(kAtan2)
#undef RONDO_BINARY
    default: return nullptr;
  }
}

// Ops whose operand (register a, and b) is a T.
template <typename T>
OpFn FindByOperand(TapeOp op, TapeType result) {
  switch (op) {
    case TapeOp::kCast:
      return result == TapeType::kF32   ? CastOp<float, T>
             : result == TapeType::kF64 ? CastOp<double, T>
                                        : CastOp<int64_t, T>;
    case TapeOp::kIsNan: return ClassifyOp<TapeOp::kIsNan, T>;
    case TapeOp::kIsInf: return ClassifyOp<TapeOp::kIsInf, T>;
    case TapeOp::kLess: return CompareOp<TapeOp::kLess, T>;
    case TapeOp::kLessEqual: return CompareOp<TapeOp::kLessEqual, T>;
    case TapeOp::kEqual: return CompareOp<TapeOp::kEqual, T>;
    case TapeOp::kNot: return NotOp<T>;
    default: return nullptr;
  }
}

template <typename T>
OpFn FindByResult(TapeOp op) {
  switch (op) {
    case TapeOp::kConst: return ConstOp<T>;
    case TapeOp::kSelect: return SelectOp<T>;
    case TapeOp::kFma: return FmaOp<T>;
    case TapeOp::kSin: return sizeof(T) == 4 ? TrigOp<0> : FindUnary<T>(op);
    case TapeOp::kCos: return sizeof(T) == 4 ? TrigOp<1> : FindUnary<T>(op);
    default: break;
  }
  OpFn unary = FindUnary<T>(op);
  return unary != nullptr ? unary : FindBinary<T>(op);
}

template <typename F>
OpFn WithType(TapeType type, F f) {
  switch (type) {
    case TapeType::kF32: return f(0.0f);
    case TapeType::kF64: return f(0.0);
    case TapeType::kI64: return f(int64_t{0});
  }
  return nullptr;
}

}  // namespace

OpFn AddClamp() { return AddClampOp; }

OpFn FindOp(TapeOp op, TapeType result, TapeType operand) {
  const bool by_operand = op == TapeOp::kCast || op == TapeOp::kIsNan || op == TapeOp::kIsInf ||
                          op == TapeOp::kLess || op == TapeOp::kLessEqual || op == TapeOp::kEqual ||
                          (op == TapeOp::kNot && operand != result);
  if (by_operand) {
    if (op != TapeOp::kCast && result != TapeType::kI64) return nullptr;
    return WithType(operand, [&](auto t) { return FindByOperand<decltype(t)>(op, result); });
  }
  if (op != TapeOp::kConst && op != TapeOp::kSelect && operand != result) return nullptr;
  if (op == TapeOp::kSelect && operand != TapeType::kI64) return nullptr;
  return WithType(result, [&](auto t) { return FindByResult<decltype(t)>(op); });
}

}  // namespace rondo::host::RONDO_ISA
