// Instructions of a single thread: conversions, arithmetic of pairs, bits; and instructions without effect in
// an emulator.
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/dtype.h"
#include "core/packed_weights.h"
#include "tests/cuda/emulated/ptx_thread.h"

namespace rondo::emulated {
namespace {

void Nothing(PtxThread&, const PtxStatement&) {}

// createpolicy is only a hint.
void Zero(PtxThread& t, const PtxStatement& s) { t.Set(s.arguments[0], 0); }

void Move(PtxThread& t, const PtxStatement& s) {
  const PtxArgument &to = s.arguments[0], &from = s.arguments[1];
  if (to.kind == PtxArgument::kList) {  // mov.b32 {low, high}, x
    t.Set(to.inside[0], t.Word(from) & 0xffff);
    t.Set(to.inside[1], t.Word(from) >> 16);
  } else {
    t.Set(to, t.Get(from));
  }
}

void Select(PtxThread& t, const PtxStatement& s) {
  t.Set(s.arguments[0], t.Get(s.arguments[3]) != 0 ? t.Get(s.arguments[1]) : t.Get(s.arguments[2]));
}

// Any function of three bits, by its table.
void Lop3(PtxThread& t, const PtxStatement& s) {
  const uint32_t a = t.Word(s.arguments[1]), b = t.Word(s.arguments[2]), c = t.Word(s.arguments[3]),
                 table = t.Word(s.arguments[4]);
  uint32_t result = 0;
  for (uint32_t row = 0; row < 8; ++row) {
    if ((table >> row & 1) == 0) continue;
    result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  }
  t.Set(s.arguments[0], result);
}

void ConvertPair(PtxThread& t, const PtxStatement& s) {
  const bool bf16 = s.Has("bf16x2");
  const uint32_t high = NarrowToHalf(t.Float(s.arguments[1]), bf16),
                 low = NarrowToHalf(t.Float(s.arguments[2]), bf16);
  t.Set(s.arguments[0], high << 16 | low);
}
void Narrow(PtxThread& t, const PtxStatement& s) {
  t.Set(s.arguments[0], NarrowToHalf(t.Float(s.arguments[1]), s.Has("bf16")));
}
void Widen(PtxThread& t, const PtxStatement& s) {
  t.SetFloat(s.arguments[0], WidenHalf(static_cast<uint16_t>(t.Word(s.arguments[1])), s.Has("bf16")));
}
void ConvertToFp8(PtxThread& t, const PtxStatement& s) {
  const bool e5m2 = s.op.find("e5m2") != std::string::npos;
  const uint32_t high = NarrowToFp8(t.Float(s.arguments[1]), e5m2),
                 low = NarrowToFp8(t.Float(s.arguments[2]), e5m2);
  t.Set(s.arguments[0], high << 8 | low);
}
void WidenFp8Pair(PtxThread& t, const PtxStatement& s) {
  const bool e5m2 = s.op.find("e5m2") != std::string::npos;
  const uint32_t pair = t.Word(s.arguments[1]);
  const uint32_t low = NarrowToHalf(WidenFp8(static_cast<uint8_t>(pair), e5m2), false),
                 high = NarrowToHalf(WidenFp8(static_cast<uint8_t>(pair >> 8), e5m2), false);
  t.Set(s.arguments[0], high << 16 | low);
}
// To 10 bits of mantissa, halves away from zero.
void ToTf32(PtxThread& t, const PtxStatement& s) {
  const uint32_t bits = t.Word(s.arguments[1]);
  t.Set(s.arguments[0], std::isfinite(std::bit_cast<float>(bits)) ? (bits + 0x1000u) & ~0x1fffu : bits);
}

// a * b + c of pairs, each rounded once.
void PairArithmetic(PtxThread& t, const PtxStatement& s) {
  const bool bf16 = s.Has("bf16x2"), adds = s.arguments.size() == 4;
  uint32_t result = 0;
  for (int half = 0; half < 2; ++half) {
    auto part = [&](size_t k) -> double {
      return WidenHalf(static_cast<uint16_t>(t.Word(s.arguments[k]) >> (16 * half)), bf16);
    };
    const double exact = part(1) * part(2) + (adds ? part(3) : 0.0);
    // Rounding to odd first keeps the second rounding exact.
    float once = static_cast<float>(exact);
    if (std::isfinite(once) && static_cast<double>(once) != exact) {
      if (std::fabs(static_cast<double>(once)) > std::fabs(exact)) once = std::nextafter(once, 0.0f);
      once = std::bit_cast<float>(std::bit_cast<uint32_t>(once) | 1);
    }
    result |= static_cast<uint32_t>(NarrowToHalf(once, bf16)) << (16 * half);
  }
  t.Set(s.arguments[0], result);
}

void GreaterPair(PtxThread& t, const PtxStatement& s) {
  const uint32_t x = t.Word(s.arguments[1]), y = t.Word(s.arguments[2]);
  t.Set(s.arguments[0], std::max(x & 0xffff, y & 0xffff) | std::max(x >> 16, y >> 16) << 16);
}
void Extreme(PtxThread& t, const PtxStatement& s) {
  const float a = t.Float(s.arguments[1]), b = t.Float(s.arguments[2]);
  const bool greatest = s.op[1] == 'a';
  float result = greatest ? std::max(a, b) : std::min(a, b);
  if (std::isnan(a) || std::isnan(b)) result = NAN;
  t.SetFloat(s.arguments[0], result);
}

void Exp2(PtxThread& t, const PtxStatement& s) {
  const float result = std::exp2(t.Float(s.arguments[1]));
  t.SetFloat(s.arguments[0], std::fpclassify(result) == FP_SUBNORMAL ? 0.0f : result);
}
void Reciprocal(PtxThread& t, const PtxStatement& s) {
  const float result = 1.0f / t.Float(s.arguments[1]);
  t.SetFloat(s.arguments[0], std::fpclassify(result) == FP_SUBNORMAL ? 0.0f : result);
}

}  // namespace

float WidenHalf(uint16_t bits, bool bf16) {
  return bf16 ? BF16ToFloat(bits) : static_cast<float>(std::bit_cast<_Float16>(bits));
}

uint16_t NarrowToHalf(float value, bool bf16) {
  if (std::isnan(value)) return 0x7fff;  // the hardware's NaN
  return bf16 ? FloatToBF16(value) : std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

float WidenFp8(uint8_t bits, bool e5m2) {
  const int rest = bits & 0x7f;
  if (e5m2 ? rest > 0x7c : rest == 0x7f) return NAN;
  if (e5m2 && rest == 0x7c) return bits > 0x7f ? -INFINITY : INFINITY;
  return PackedValue(e5m2 ? PackedType::kE5M2 : PackedType::kE4M3, bits);
}

uint8_t NarrowToFp8(float value, bool e5m2) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0, greatest = e5m2 ? 0x7b : 0x7e;
  if (std::isnan(value)) return 0x7f;
  uint8_t nearest = 0;  // searched among all codes, which are ordered by value
  const double size = std::fabs(static_cast<double>(value));
  for (uint8_t code = 1; code <= greatest; ++code) {
    const double below = WidenFp8(nearest, e5m2), own = WidenFp8(code, e5m2), middle = (below + own) / 2;
    if (size < middle || (size == middle && code % 2 != 0)) break;
    nearest = code;
  }
  return sign | nearest;
}

const PtxRow kScalarInstructions[] = {
    {"mov", Move},
    {"selp", Select},
    {"lop3", Lop3},
    {"cvt.rn.f16x2.f32", ConvertPair},
    {"cvt.rn.bf16x2.f32", ConvertPair},
    {"cvt.rn.satfinite.e4m3x2.f32", ConvertToFp8},
    {"cvt.rn.satfinite.e5m2x2.f32", ConvertToFp8},
    {"cvt.rn.f16x2.e4m3x2", WidenFp8Pair},
    {"cvt.rn.f16x2.e5m2x2", WidenFp8Pair},
    {"cvt.rn.f16.f32", Narrow},
    {"cvt.rn.bf16.f32", Narrow},
    {"cvt.f32.f16", Widen},
    {"cvt.rna.tf32.f32", ToTf32},
    {"fma.rn.f16x2", PairArithmetic},
    {"fma.rn.bf16x2", PairArithmetic},
    {"mul.rn.f16x2", PairArithmetic},
    {"mul.rn.bf16x2", PairArithmetic},
    {"max.u16x2", GreaterPair},
    {"max.NaN.f32", Extreme},
    {"min.NaN.f32", Extreme},
    {"ex2.approx.ftz.f32", Exp2},
    {"rcp.approx.ftz.f32", Reciprocal},
    {"createpolicy", Zero},
    {"griddepcontrol", Nothing},  // kernels run one after another
    {"setmaxnreg", Nothing},
    {"fence", Nothing},
    {"prefetch", Nothing},
    {"cp.async.bulk.prefetch", Nothing},
    {nullptr, nullptr},
};

}  // namespace rondo::emulated
