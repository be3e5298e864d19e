// Codes of packed weights (core/packed_weights.h) as pairs of f16 or bf16, in registers.
//
// Whole numbers: a code in the low bits of the mantissa of a power of two is that power plus the code; what
// is too much is subtracted together with the zero point, exactly (the trick is FasterTransformer's). Floats:
// sign, exponent and mantissa are shifted to their places and a power of two makes up for the other bias,
// exactly.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_CODES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_CODES_CUH_

#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/packed_format.h"

enum { kPackedU2 = 1, kPackedU4, kPackedU8, kPackedE4M3, kPackedE5M2, kPackedE2M1 };  // rondo::PackedType

// a * b + c of pairs.
template <bool BF16>
DEV u32 fma_pair(u32 a, u32 b, u32 c) {
  u32 d;
  if (BF16)
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  else
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

// (x & MASK) | SET, (x & MASK) ^ FLIP, and x where the bits of MASK are set, else y: one instruction each,
// which two constants in plain C++ are not.
template <u32 MASK, u32 SET>
DEV u32 masked_or(u32 x) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(x), "n"(MASK), "n"(SET));
  return d;
}
template <u32 MASK, u32 FLIP>
DEV u32 masked_xor(u32 x) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(d) : "r"(x), "n"(MASK), "n"(FLIP));
  return d;
}
template <u32 MASK>
DEV u32 merged(u32 x, u32 y) {
  u32 d;
  asm("lop3.b32 %0, %1, %2, %3, 0xe4;" : "=r"(d) : "r"(x), "r"(y), "n"(MASK));
  return d;
}
// Codes of 4 bits of two words, of which a lane has the columns g and g + 8: 32 along K, one a byte, as
// fragments of an instruction on bytes. Each is 16 times the code less 8. Shifts to the left are
// multiplications, which other units do than those of the masks.
DEV void nibble_bytes(u32 first, u32 second, u32* codes) {
  codes[0] = masked_xor<0xf0f0f0f0u, 0x80808080u>(first << 4);
  codes[1] = masked_xor<0xf0f0f0f0u, 0x80808080u>(second << 4);
  codes[2] = masked_xor<0xf0f0f0f0u, 0x80808080u>(first);
  codes[3] = masked_xor<0xf0f0f0f0u, 0x80808080u>(second);
}
// Left by so many bits, or right.
DEV u32 moved(u32 x, int left) { return left >= 0 ? x << left : x >> -left; }

// SUMMED: sums of A make up for what whole numbers have too much (PackedMatmul::summed).
template <PackedFormat FORMAT, bool SUMMED>
struct PackedCodes {
  static constexpr bool BF16 = FORMAT.bf16, WHOLE = FORMAT.type <= kPackedU8;
  static constexpr u32 ONE = BF16 ? 0x3f803f80u : 0x3c003c00u;

  // The pair that is added to whole numbers as `pair` first makes them, so that `zero` is taken from them.
  DEV u32 bias(float zero) {
    const float base = !BF16 ? 1024.0f : FORMAT.type == kPackedU8 ? 0.0f : 128.0f;
    const float low = FORMAT.type == kPackedU8 && BF16 ? 128.0f - zero : -base - zero;
    return pack_pair<BF16>(low, low);
  }
  // Pair i of a word, where SUMMED with 128 too much.
  DEV u32 pair(u32 w, int i, u32 bias) {
    if (!WHOLE) return real(w, i);
    if (!BF16 && FORMAT.type == kPackedU4 && i % 2 != 0) {
      // 1024 + 16 times the code, as it lies in the second half of a byte, and a 16th of that.
      const u32 large = masked_or<0x00f000f0u, MAGIC>(w >> (FORMAT.bits * (i - 1)));
      return fma_pair<BF16>(large, 0x2c002c00u, add(bias, pack_pair<BF16>(960.0f, 960.0f)));
    }
    const u32 x = w >> (FORMAT.bits * i);
    if (FORMAT.type <= kPackedU4) {
      const u32 large =
          FORMAT.type == kPackedU2 ? masked_or<0x00030003u, MAGIC>(x) : masked_or<0x000f000fu, MAGIC>(x);
      return SUMMED ? large : add(large, bias);
    }
    if (!BF16) return add(masked_or<0x00ff00ffu, MAGIC>(x), bias);
    // 128 + the low 7 bits, less 256 or, where the eighth is set, 128: the number less 128.
    const u32 centred = add(masked_or<0x007f007fu, MAGIC>(x), masked_xor<0x00800080u, 0xc380c380u>(x));
    return FORMAT.zeros || FORMAT.zero != 128 ? add(centred, bias) : centred;
  }

 private:
  static constexpr u32 MAGIC = BF16 ? 0x43004300u : 0x64006400u;
  DEV u32 add(u32 a, u32 b) { return fma_pair<BF16>(a, ONE, b); }
  DEV u32 real(u32 w, int i) {
    // Bits of a code behind its sign; by how much those move; what is left of both; the power of two, twice.
    constexpr int MANTISSA = FORMAT.type == kPackedE4M3 ? 3 : FORMAT.type == kPackedE5M2 ? 2 : 1;
    constexpr int BEHIND = FORMAT.bits - 1, OWN = (BF16 ? 7 : 10) - MANTISSA;
    constexpr u32 SIGN = 0x80008000u, KEPT = SIGN | ((((1u << BEHIND) - 1) << OWN) * 0x00010001u);
    constexpr u32 BIAS = FORMAT.type == kPackedE4M3 ? 7 : FORMAT.type == kPackedE5M2 ? 15 : 1;
    constexpr u32 POWER = BF16 ? (254 - BIAS) << 7 : (30 - BIAS) << 10;
    const int at = FORMAT.bits * i;
    const u32 y = merged<SIGN>(moved(w, 15 - BEHIND - at), moved(w, OWN - at)) & KEPT;
    if (!BF16 && FORMAT.type == kPackedE5M2) return y;
    return fma_pair<BF16>(y, POWER * 0x00010001u, SIGN);
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_CODES_CUH_
