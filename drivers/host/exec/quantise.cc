// Quantisation in tapes: to whole floats, or to the bytes that those are stored as.
#include "drivers/host/exec/exec.h"
#include "drivers/host/exec/quotient.h"
#include "drivers/host/exec/to_bytes.h"

namespace rondo::host::RONDO_ISA {
namespace {

// Registers have room for whole vectors.
int Whole(int n) { return (n + 15) & ~15; }

// round(a / scale) + zero in [low, high], of all lanes with the same four.
void QuantiseLanes(const float* a, float* out, int n, float scale, float zero, float low, float high) {
  const int end = Whole(n);
  if (QuotientIsQuick(scale, zero, low, high)) {
    const Quotient quotient(scale);
#pragma GCC ivdep
    for (int i = 0; i < end; ++i) {
      const float x = __builtin_nearbyintf(quotient.Of(a[i])) + zero;
      const float y = x < low ? low : x;
      out[i] = y > high ? high : y;
    }
    return;
  }
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) {
    const float x = __builtin_nearbyintf(a[i] / scale) + zero;
    const float y = x < low ? low : x;
    out[i] = y > high ? high : y;
  }
}

#if defined(__AVX512F__)

template <typename Byte>
void LimitedToBytes(const float* a, Byte* out, int n, float scale, float zero, float low, float high) {
  const __m512 least = _mm512_set1_ps((low - zero) * scale), greatest = _mm512_set1_ps((high - zero) * scale);
  const ToBytes to_bytes(scale, zero);
  for (int i = 0; i < n; i += 16) {
    const auto some = static_cast<__mmask16>(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff);
    __m512 x = _mm512_maskz_loadu_ps(some, a + i);
    x = _mm512_maskz_min_ps(0xffff, greatest, _mm512_maskz_max_ps(0xffff, least, x));  // no number stays
    StoreBytes(to_bytes.Of(x), some, out + i);
  }
}

#elif defined(__AVX2__)

template <typename Byte>
void LimitedToBytes(const float* a, Byte* out, int n, float scale, float zero, float low, float high) {
  const __m256 least = _mm256_set1_ps((low - zero) * scale), greatest = _mm256_set1_ps((high - zero) * scale);
  const ToBytes to_bytes(scale, zero);
  const auto eight = [&](const float* from) {
    return to_bytes.Of(
        _mm256_min_ps(greatest, _mm256_max_ps(least, _mm256_loadu_ps(from))));  // no number stays
  };
  for (int i = 0; i < n; i += 16) {
    if (i + 16 <= n) {
      StoreBytes(eight(a + i), eight(a + i + 8), 16, out + i);
    } else {
      float last[16] = {};
      CopyFloats(a + i, n - i, last);
      StoreBytes(eight(last), eight(last + 8), n - i, out + i);
    }
  }
}

#endif

// `a` may be memory: nothing behind n is read.
template <typename Byte>
void QuantiseToBytes(const void* a, void* out, int n, float scale, float zero, const float* range) {
  const float* from = static_cast<const float*>(a);
  Byte* const to = static_cast<Byte*>(out);
#if defined(__AVX2__)
  if (QuotientIsQuick(scale, zero, range[0], range[1]) && zero == __builtin_truncf(zero))
    return LimitedToBytes(from, to, n, scale, zero, range[0], range[1]);
#endif
  float some[kLanes] = {};
  std::memcpy(some, from, static_cast<size_t>(n) * sizeof(float));
  QuantiseLanes(some, some, n, scale, zero, range[0], range[1]);
#pragma GCC ivdep
  for (int i = 0; i < n; ++i)
    to[i] = static_cast<Byte>(static_cast<int32_t>(some[i] == some[i] ? some[i] : 0));
}

// Where the scale and the zero point are: both in the instruction; the scale in lane 0 of register b; the
// zero point in that of c, too.
enum class From { kNowhere, kScale, kBoth };
template <From kFrom>
float ScaleOf(const Registers& r, const Inst& inst) {
  return kFrom == From::kNowhere ? inst.imm.range[2] : *static_cast<const float*>(r.b);
}
template <From kFrom>
float ZeroOf(const Registers& r, const Inst& inst) {
  return kFrom == From::kBoth ? *static_cast<const float*>(r.c) : inst.imm.range[3];
}

template <From kFrom>
void QuantiseOp(const Registers& r, const Inst& inst, int n) {
  QuantiseLanes(static_cast<const float*>(r.a), static_cast<float*>(r.out), n, ScaleOf<kFrom>(r, inst),
                ZeroOf<kFrom>(r, inst), inst.imm.range[0], inst.imm.range[1]);
}
template <From kFrom, typename Byte>
void QuantiseBytesOp(const Registers& r, const Inst& inst, int n) {
  QuantiseToBytes<Byte>(r.a, r.out, n, ScaleOf<kFrom>(r, inst), ZeroOf<kFrom>(r, inst), inst.imm.range);
}

template <From kFrom>
constexpr Quantisers Of() {
  return {QuantiseOp<kFrom>, QuantiseBytesOp<kFrom, uint8_t>, QuantiseBytesOp<kFrom, int8_t>};
}

}  // namespace

void FillQuantisers(Engine* engine) {
  engine->quantise = Of<From::kNowhere>();
  engine->quantise_scaled = Of<From::kScale>();
  engine->quantise_by = Of<From::kBoth>();
}

}  // namespace rondo::host::RONDO_ISA
