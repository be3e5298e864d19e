// Arithmetic instructions over the lanes of a tile.
#include "core/scalar.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/tape/math.h"

namespace rondo::host::RONDO_ISA {
namespace {

template <typename T>
struct TypeOf {
  using type = T;
};

// Registers have room for kLanes, a multiple of 16, so that full vectors may be computed past the last lane.
int Whole(int n) { return (n + 15) & ~15; }

// f32 functions with a vector form in math.h.
constexpr bool HasVectorForm(TapeOp op) {
  return op == TapeOp::kExp || op == TapeOp::kLog || op == TapeOp::kTanh || op == TapeOp::kErf ||
         op == TapeOp::kSigmoid;
}

// C library functions are called only for existing lanes; everything else is computed for whole vectors.
constexpr bool CallsLibrary(TapeOp op, bool f32) {
  if (op == TapeOp::kMod || op == TapeOp::kFmod) return true;
  return AccuracyOf(op) == Accuracy::kFunction && !(f32 && HasVectorForm(op));
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
[[gnu::flatten]] void TestOp(const Registers& r, const Inst& inst, int n) {
  int64_t* out = static_cast<int64_t*>(r.out);
  const T* a = static_cast<const T*>(r.a);
  const int64_t which = inst.imm.i;
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) out[i] = scalar::Test<T>(kOp, a[i], which);
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

void ClampOp(const Registers& r, const Inst& inst, int n) {
  float* out = static_cast<float*>(r.out);
  const float* a = static_cast<const float*>(r.a);
  const float low = inst.imm.range[0], high = inst.imm.range[1];
  const int end = Whole(n);
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) {
    const float y = a[i] < low ? low : a[i];
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

// One loop for each dtype narrower than the register.
template <typename T>
[[gnu::flatten]] void RoundLanes(T* x, DType to, int n) {
  WithElement(to, [&](auto element) {
    using E = decltype(element);
    constexpr bool kIsInt = scalar::kIsInt<typename E::Wide>;
    if constexpr (kIsInt == scalar::kIsInt<T> && sizeof(typename E::Stored) < sizeof(T)) {
#pragma GCC ivdep
      for (int i = 0; i < n; ++i) x[i] = scalar::RoundTo<T>(x[i], E::kType);
    }
  });
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

#define RONDO_OP_FUNCTION(name, number, text, accuracy) \
  case TapeOp::k##name: return RONDO_FUNCTION<TapeOp::k##name, T>;

template <typename T>
OpFn FindUnary(TapeOp op) {
  if constexpr (sizeof(T) == 4) {
    if (op == TapeOp::kSin) return TrigOp<0>;
    if (op == TapeOp::kCos) return TrigOp<1>;
  }
  switch (op) {
#define RONDO_FUNCTION UnaryOp
    RONDO_UNARY_OPS(RONDO_OP_FUNCTION)
    RONDO_BIT_UNARY_OPS(RONDO_OP_FUNCTION)
#undef RONDO_FUNCTION
    default: return nullptr;
  }
}

template <typename T>
OpFn FindBinary(TapeOp op) {
  switch (op) {
#define RONDO_FUNCTION BinaryOp
    RONDO_BINARY_OPS(RONDO_OP_FUNCTION)
    RONDO_BIT_BINARY_OPS(RONDO_OP_FUNCTION)
#undef RONDO_FUNCTION
    default: return nullptr;
  }
}

// Ops with operands (register a, and b) of type T and a result of another type.
template <typename T>
OpFn FindByOperand(TapeOp op, TapeType result) {
  switch (op) {
#define RONDO_FUNCTION TestOp
    RONDO_TEST_OPS(RONDO_OP_FUNCTION)
#undef RONDO_FUNCTION
#define RONDO_FUNCTION CompareOp
    RONDO_COMPARE_OPS(RONDO_OP_FUNCTION)
#undef RONDO_FUNCTION
    default:
      return result == TapeType::kF32   ? CastOp<float, T>
             : result == TapeType::kF64 ? CastOp<double, T>
                                        : CastOp<int64_t, T>;
  }
}
#undef RONDO_OP_FUNCTION

template <typename T>
OpFn FindByResult(TapeOp op) {
  switch (ClassOf(op)) {
    case OpClass::kLeaf: return op == TapeOp::kConst ? ConstOp<T> : nullptr;
    case OpClass::kSelect: return SelectOp<T>;
    case OpClass::kTernary: return FmaOp<T>;
    case OpClass::kUnary:
    case OpClass::kBitUnary: return FindUnary<T>(op);
    case OpClass::kBinary:
    case OpClass::kBitBinary: return FindBinary<T>(op);
    default: return nullptr;
  }
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
OpFn Clamp() { return ClampOp; }

OpFn FindOp(TapeOp op, TapeType result, TapeType operand) {
  const OpClass kind = ClassOf(op);
  if (GivesTruth(kind) || kind == OpClass::kCast) {
    if (kind != OpClass::kCast && result != TapeType::kI64) return nullptr;
    return WithType(operand, [&](auto t) { return FindByOperand<decltype(t)>(op, result); });
  }
  if (kind == OpClass::kSelect && operand != TapeType::kI64) return nullptr;
  if (kind != OpClass::kLeaf && kind != OpClass::kSelect && operand != result) return nullptr;
  return WithType(result, [&](auto t) { return FindByResult<decltype(t)>(op); });
}

}  // namespace rondo::host::RONDO_ISA
