// Loads that widen and stores that narrow, for every dtype and lane pattern.
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "core/scalar.h"
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

// Elements of one dtype, by this instruction set's own conversions where it has some.
template <DType kType>
struct HostElement : Element<kType> {};
template <>
struct HostElement<DType::kBF16> {
  using Stored = uint16_t;
  using Wide = float;
  static Wide Widen(Stored x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }
  static Stored Narrow(Wide x) {
    const uint32_t u = __builtin_bit_cast(uint32_t, x);
    const uint32_t nan = (u >> 16) | 0x40u;
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return static_cast<Stored>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
};
#if defined(__F16C__)
template <>
struct HostElement<DType::kF16> {
  using Stored = uint16_t;
  using Wide = float;
  static Wide Widen(Stored x) { return _cvtsh_ss(x); }
  static Stored Narrow(Wide x) { return static_cast<Stored>(_cvtss_sh(x, 0)); }
};
#endif

// Stores floats as bytes. Values are integers within the type's range, or NaN.
#define RONDO_FLOAT_ELEMENT(name, raw)                                                                 \
  struct name {                                                                                        \
    using Stored = raw;                                                                                \
    using Wide = float;                                                                                \
    static Wide Widen(Stored x) { return static_cast<Wide>(x); }                                       \
    static Stored Narrow(Wide x) { return static_cast<Stored>(static_cast<int32_t>(x == x ? x : 0)); } \
  };
RONDO_FLOAT_ELEMENT(FloatI8, int8_t)
RONDO_FLOAT_ELEMENT(FloatU8, uint8_t)
#undef RONDO_FLOAT_ELEMENT

// Bytes without arithmetic.
struct Byte {
  using Stored = uint8_t;
  using Wide = uint8_t;
  static Wide Widen(Stored x) { return x; }
  static Stored Narrow(Wide x) { return x; }
};

template <DType kType, typename E = HostElement<kType>>
void LoadUnit(void* out_bytes, const char* from, const LanePattern&, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  auto* in = reinterpret_cast<const typename E::Stored*>(from);
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

template <DType kType, typename E = HostElement<kType>>
void LoadSame(void* out_bytes, const char* from, const LanePattern&, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  const auto value = E::Widen(*reinterpret_cast<const typename E::Stored*>(from));
  const int end = (n + 15) & ~15;
  for (int i = 0; i < end; ++i) out[i] = value;
}

template <DType kType, typename E = HostElement<kType>>
void LoadStride(void* out_bytes, const char* from, const LanePattern& lane, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  auto* in = reinterpret_cast<const typename E::Stored*>(from);
  const int64_t stride = lane.stride;
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) out[i] = E::Widen(in[i * stride]);
}

template <DType kType, typename E = HostElement<kType>>
void LoadTable(void* out_bytes, const char* from, const LanePattern& lane, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  auto* in = reinterpret_cast<const typename E::Stored*>(from);
  const int32_t* table = lane.table;
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) out[i] = E::Widen(in[table[i]]);
}

template <DType kType, typename E = HostElement<kType>>
void StoreUnit(char* to, const void* in_bytes, const LanePattern&, int n) {
  auto* out = reinterpret_cast<typename E::Stored*>(to);
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

template <DType kType, typename E = HostElement<kType>>
void StoreStride(char* to, const void* in_bytes, const LanePattern& lane, int n) {
  auto* out = reinterpret_cast<typename E::Stored*>(to);
  auto* in = static_cast<const typename E::Wide*>(in_bytes);
  const int64_t stride = lane.stride;
  for (int i = 0; i < n; ++i) out[i * stride] = E::Narrow(in[i]);
}

template <DType kType, typename E = HostElement<kType>>
void StoreTable(char* to, const void* in_bytes, const LanePattern& lane, int n) {
  auto* out = reinterpret_cast<typename E::Stored*>(to);
  auto* in = static_cast<const typename E::Wide*>(in_bytes);
  for (int i = 0; i < n; ++i) out[lane.table[i]] = E::Narrow(in[i]);
}

template <DType kType, typename E = HostElement<kType>>
void GatherLanes(void* out_bytes, const char* from, const int64_t* offsets, const uint8_t* mask,
                 double absent_value, int n) {
  auto* out = static_cast<typename E::Wide*>(out_bytes);
  auto* in = reinterpret_cast<const typename E::Stored*>(from);
  const auto absent = scalar::Convert<typename E::Wide>(absent_value);
  for (int i = 0; i < n; ++i) out[i] = mask[i] != 0 ? E::Widen(in[offsets[i]]) : absent;
}

template <DType kType, typename E = HostElement<kType>>
void ScatterLanes(char* to, const void* in_bytes, const int64_t* offsets, const uint8_t* mask, int n) {
  auto* out = reinterpret_cast<typename E::Stored*>(to);
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
#define RONDO_DTYPE(name, ...) FillDType<DType::k##name>(engine);
  RONDO_DTYPES(RONDO_DTYPE)
#undef RONDO_DTYPE
  engine->fill[static_cast<int>(TapeType::kF32)] = Fill<float>;
  engine->fill[static_cast<int>(TapeType::kF64)] = Fill<double>;
  engine->fill[static_cast<int>(TapeType::kI64)] = Fill<int64_t>;
}

void WidenRow(const char* from, DType dtype, int64_t n, float* out) {
  const LanePattern lane;
  const int64_t size = ByteSize(dtype);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int count = static_cast<int>(Least<int64_t>(kLanes, n - i));
    WithElement(dtype, [&](auto element) {
      using E = decltype(element);
      if constexpr (std::is_same_v<typename E::Wide, float>)
        LoadUnit<E::kType>(out + i, from + i * size, lane, count);
    });
  }
}

}  // namespace rondo::host::RONDO_ISA
