// Loads that widen and stores that narrow, for every dtype and lane pattern.
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "core/scalar.h"
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

// How elements of one dtype are stored (Raw) and computed with (Wide).
template <DType kType>
struct Element;
#define RONDO_ELEMENT(dtype, raw, wide)                       \
  template <>                                                 \
  struct Element<DType::dtype> {                              \
    using Raw = raw;                                          \
    using Wide = wide;                                        \
    static Wide Widen(Raw x) { return static_cast<Wide>(x); } \
    static Raw Narrow(Wide x) { return static_cast<Raw>(x); } \
  };
RONDO_ELEMENT(kF32, float, float)
RONDO_ELEMENT(kF64, double, double)
RONDO_ELEMENT(kI64, int64_t, int64_t)
RONDO_ELEMENT(kI32, int32_t, int64_t)
RONDO_ELEMENT(kI16, int16_t, int64_t)
RONDO_ELEMENT(kI8, int8_t, int64_t)
RONDO_ELEMENT(kU8, uint8_t, int64_t)
RONDO_ELEMENT(kU16, uint16_t, int64_t)
RONDO_ELEMENT(kU32, uint32_t, int64_t)
RONDO_ELEMENT(kU64, uint64_t, int64_t)
#undef RONDO_ELEMENT
template <>
struct Element<DType::kBool> {
  using Raw = uint8_t;
  using Wide = int64_t;
  static Wide Widen(Raw x) { return x != 0; }
  static Raw Narrow(Wide x) { return x != 0; }
};
template <>
struct Element<DType::kBF16> {
  using Raw = uint16_t;
  using Wide = float;
  static Wide Widen(Raw x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }
  static Raw Narrow(Wide x) {
    const uint32_t u = __builtin_bit_cast(uint32_t, x);
    const uint32_t nan = (u >> 16) | 0x40u;
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return static_cast<Raw>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
};
template <>
struct Element<DType::kF16> {
  using Raw = uint16_t;
  using Wide = float;
#if defined(__F16C__)
  static Wide Widen(Raw x) { return _cvtsh_ss(x); }
  static Raw Narrow(Wide x) { return static_cast<Raw>(_cvtss_sh(x, 0)); }
#else
  static Wide Widen(Raw x) { return F16ToFloat(x); }
  static Raw Narrow(Wide x) { return FloatToF16(x); }
#endif
};

#define RONDO_FP8_ELEMENT(dtype, format)                        \
  template <>                                                   \
  struct Element<DType::dtype> {                                \
    using Raw = uint8_t;                                        \
    using Wide = float;                                         \
    static Wide Widen(Raw x) { return Fp8ToFloat(format, x); }  \
    static Raw Narrow(Wide x) { return FloatToFp8(format, x); } \
  };
RONDO_FP8_ELEMENT(kE4M3, kE4M3Format)
RONDO_FP8_ELEMENT(kE5M2, kE5M2Format)
#undef RONDO_FP8_ELEMENT

// Stores floats as bytes. Values are integers within the type's range, or NaN.
#define RONDO_FLOAT_ELEMENT(name, raw)                                                           \
  struct name {                                                                                  \
    using Raw = raw;                                                                             \
    using Wide = float;                                                                          \
    static Wide Widen(Raw x) { return static_cast<Wide>(x); }                                    \
    static Raw Narrow(Wide x) { return static_cast<Raw>(static_cast<int32_t>(x == x ? x : 0)); } \
  };
RONDO_FLOAT_ELEMENT(FloatI8, int8_t)
RONDO_FLOAT_ELEMENT(FloatU8, uint8_t)
#undef RONDO_FLOAT_ELEMENT

// Bytes without arithmetic.
struct Byte {
  using Raw = uint8_t;
  using Wide = uint8_t;
  static Wide Widen(Raw x) { return x; }
  static Raw Narrow(Wide x) { return x; }
};

template <DType kType, typename E = Element<kType>>
void LoadUnit(void* out_bytes, const char* from, const LanePattern&, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  auto* in = reinterpret_cast<const typename E::Raw*>(from);
  int i = 0;
#if defined(__F16C__)
  if constexpr (kType == DType::kF16) {
    for (; i + 8 <= n; i += 8) {
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
    }
  }
#endif
#pragma GCC ivdep
  for (; i < n; ++i) out[i] = E::Widen(in[i]);
}

template <DType kType, typename E = Element<kType>>
void LoadSame(void* out_bytes, const char* from, const LanePattern&, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  const auto value = E::Widen(*reinterpret_cast<const typename E::Raw*>(from));
  const int end = (n + 15) & ~15;
  for (int i = 0; i < end; ++i) out[i] = value;
}

template <DType kType, typename E = Element<kType>>
void LoadStride(void* out_bytes, const char* from, const LanePattern& lane, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  auto* in = reinterpret_cast<const typename E::Raw*>(from);
  const int64_t stride = lane.stride;
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) out[i] = E::Widen(in[i * stride]);
}

template <DType kType, typename E = Element<kType>>
void LoadTable(void* out_bytes, const char* from, const LanePattern& lane, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  auto* in = reinterpret_cast<const typename E::Raw*>(from);
  const int32_t* table = lane.table;
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) out[i] = E::Widen(in[table[i]]);
}

template <DType kType, typename E = Element<kType>>
void StoreUnit(char* to, const void* in_bytes, const LanePattern&, int n) {
  auto* out = reinterpret_cast<typename E::Raw*>(to);
  auto* in = static_cast<const typename E::Wide*>(in_bytes);
  int i = 0;
#if defined(__F16C__)
  if constexpr (kType == DType::kF16) {
    for (; i + 8 <= n; i += 8) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), 0));
    }
  }
#endif
#pragma GCC ivdep
  for (; i < n; ++i) out[i] = E::Narrow(in[i]);
}

template <DType kType, typename E = Element<kType>>
void StoreStride(char* to, const void* in_bytes, const LanePattern& lane, int n) {
  auto* out = reinterpret_cast<typename E::Raw*>(to);
  auto* in = static_cast<const typename E::Wide*>(in_bytes);
  const int64_t stride = lane.stride;
  for (int i = 0; i < n; ++i) out[i * stride] = E::Narrow(in[i]);
}

template <DType kType, typename E = Element<kType>>
void StoreTable(char* to, const void* in_bytes, const LanePattern& lane, int n) {
  auto* out = reinterpret_cast<typename E::Raw*>(to);
  auto* in = static_cast<const typename E::Wide*>(in_bytes);
  for (int i = 0; i < n; ++i) out[lane.table[i]] = E::Narrow(in[i]);
}

template <DType kType, typename E = Element<kType>>
void GatherLanes(void* out_bytes, const char* from, const int64_t* offsets, const uint8_t* mask,
                 double absent_value, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  auto* in = reinterpret_cast<const typename E::Raw*>(from);
  const auto absent = scalar::Convert<typename E::Wide>(absent_value);
  for (int i = 0; i < n; ++i) out[i] = mask[i] != 0 ? E::Widen(in[offsets[i]]) : absent;
}

template <DType kType, typename E = Element<kType>>
void ScatterLanes(char* to, const void* in_bytes, const int64_t* offsets, const uint8_t* mask, int n) {
  auto* out = reinterpret_cast<typename E::Raw*>(to);
  auto* in = static_cast<const typename E::Wide*>(in_bytes);
  for (int i = 0; i < n; ++i) {
    if (mask[i] != 0) out[offsets[i]] = E::Narrow(in[i]);
  }
}

template <typename T>
void Fill(void* out_bytes, double value, int n) {
  T* out = static_cast<T*>(out_bytes);
  const T wide = scalar::Convert<T>(value);
  for (int i = 0; i < n; ++i) out[i] = wide;
}

template <DType kType>
void FillDType(Engine* engine) {
  const int t = static_cast<int>(kType);
  engine->load[t][static_cast<int>(LaneKind::kUnit)] = LoadUnit<kType>;
  engine->load[t][static_cast<int>(LaneKind::kSame)] = LoadSame<kType>;
  engine->load[t][static_cast<int>(LaneKind::kStride)] = LoadStride<kType>;
  engine->load[t][static_cast<int>(LaneKind::kTable)] = LoadTable<kType>;
  engine->store[t][static_cast<int>(LaneKind::kUnit)] = StoreUnit<kType>;
  engine->store[t][static_cast<int>(LaneKind::kSame)] = StoreStride<kType>;
  engine->store[t][static_cast<int>(LaneKind::kStride)] = StoreStride<kType>;
  engine->store[t][static_cast<int>(LaneKind::kTable)] = StoreTable<kType>;
  engine->gather[t] = GatherLanes<kType>;
  engine->scatter[t] = ScatterLanes<kType>;
}

template <DType kType, typename E>
void FillAs(LoadFn (*load)[4], StoreFn (*store)[4]) {
  const int t = static_cast<int>(kType);
  load[t][static_cast<int>(LaneKind::kUnit)] = LoadUnit<kType, E>;
  load[t][static_cast<int>(LaneKind::kSame)] = LoadSame<kType, E>;
  load[t][static_cast<int>(LaneKind::kStride)] = LoadStride<kType, E>;
  load[t][static_cast<int>(LaneKind::kTable)] = LoadTable<kType, E>;
  store[t][static_cast<int>(LaneKind::kUnit)] = StoreUnit<kType, E>;
  store[t][static_cast<int>(LaneKind::kSame)] = StoreStride<kType, E>;
  store[t][static_cast<int>(LaneKind::kStride)] = StoreStride<kType, E>;
  store[t][static_cast<int>(LaneKind::kTable)] = StoreTable<kType, E>;
}

}  // namespace

void FillLoads(Engine* engine) {
  FillAs<DType::kI8, FloatI8>(engine->load_float, engine->store_float);
  FillAs<DType::kU8, FloatU8>(engine->load_float, engine->store_float);
  FillAs<DType::kI8, Byte>(engine->load_byte, engine->store_byte);
  FillAs<DType::kU8, Byte>(engine->load_byte, engine->store_byte);
  FillDType<DType::kF32>(engine);
  FillDType<DType::kF16>(engine);
  FillDType<DType::kBF16>(engine);
  FillDType<DType::kF64>(engine);
  FillDType<DType::kI64>(engine);
  FillDType<DType::kI32>(engine);
  FillDType<DType::kI16>(engine);
  FillDType<DType::kI8>(engine);
  FillDType<DType::kU8>(engine);
  FillDType<DType::kU16>(engine);
  FillDType<DType::kU32>(engine);
  FillDType<DType::kU64>(engine);
  FillDType<DType::kBool>(engine);
  FillDType<DType::kE4M3>(engine);
  FillDType<DType::kE5M2>(engine);
  engine->fill[static_cast<int>(TapeType::kF32)] = Fill<float>;
  engine->fill[static_cast<int>(TapeType::kF64)] = Fill<double>;
  engine->fill[static_cast<int>(TapeType::kI64)] = Fill<int64_t>;
}

void WidenRow(const char* from, DType dtype, int64_t n, float* out) {
  const LanePattern lane;
  const int64_t size = ByteSize(dtype);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int count = static_cast<int>(Least<int64_t>(kLanes, n - i));
    if (dtype == DType::kF32) {
      std::memcpy(out + i, from + i * size, static_cast<size_t>(count) * 4);
    } else if (dtype == DType::kF16) {
      LoadUnit<DType::kF16>(out + i, from + i * size, lane, count);
    } else if (dtype == DType::kE4M3) {
      LoadUnit<DType::kE4M3>(out + i, from + i * size, lane, count);
    } else if (dtype == DType::kE5M2) {
      LoadUnit<DType::kE5M2>(out + i, from + i * size, lane, count);
    } else {
      LoadUnit<DType::kBF16>(out + i, from + i * size, lane, count);
    }
  }
}

}  // namespace rondo::host::RONDO_ISA
