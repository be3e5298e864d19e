// Values of attention, in the fragments of mma.sync, straight from memory.
//
// A sum over features may run through them in any order, so a thread takes 16 neighbouring bytes where the
// instruction's own order would have it take 4 times 4; pairs of keys are put together by byte permutations.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_VALUES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_VALUES_CUH_

#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/vectors.cuh"

// mma whose accumulators are those of the rows 0 to 7 alone, where there are two.
template <bool BF16, int COUNT>
DEV void mma_rows(float (&d)[COUNT], const u32* a, u32 b0, u32 b1) {
  if constexpr (COUNT == 4) {
    mma<BF16>(d, a, b0, b1);
  } else {
    float all[4] = {d[0], d[1], 0, 0};
    mma<BF16>(all, a, b0, b1);
    d[0] = all[0];
    d[1] = all[1];
  }
}

// The values of four keys, at FEATURES neighbouring features (8, 4 or 2) of each of the warp's 8 groups of
// threads.
template <int FEATURES>
struct FourValues {
  static constexpr int WORDS = FEATURES / 2;
  u32 w[4][WORDS];
  template <bool ALL>
  MEMBER void load(const char* const* rows, i64 at) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (ALL || rows[k] != 0)
        load_words<WORDS>(rows[k] + at, w[k]);
      else
        fill_words<WORDS>(w[k]);
    }
  }
  MEMBER void clear(int key) { fill_words<WORDS>(w[key]); }
  template <bool BF16, int COUNT>
  MEMBER void multiply(float (*out)[COUNT], const u32* weights) const {
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      mma_rows<BF16>(out[2 * i], weights, __byte_perm(w[0][i], w[1][i], 0x5410),
                     __byte_perm(w[2][i], w[3][i], 0x5410));
      mma_rows<BF16>(out[2 * i + 1], weights, __byte_perm(w[0][i], w[1][i], 0x7632),
                     __byte_perm(w[2][i], w[3][i], 0x7632));
    }
  }
};

// One feature of four keys' values in each group.
struct FourValuesOfOne {
  u32 w[4];
  template <bool ALL>
  MEMBER void load(const char* const* rows, i64 at) {
#pragma unroll
    for (int k = 0; k < 4; ++k) w[k] = ALL || rows[k] != 0 ? *(const unsigned short*)(rows[k] + at) : 0;
  }
  MEMBER void clear(int key) { w[key] = 0; }
  template <bool BF16, int COUNT>
  MEMBER void multiply(float (*out)[COUNT], const u32* weights) const {
    mma_rows<BF16>(out[0], weights, w[0] | w[1] << 16, w[2] | w[3] << 16);
  }
};

// 16 keys' values: VALUES features as pieces of 64, then 32, 16 and 8.
template <int VALUES>
struct SixteenValues {
  static constexpr int WIDE = VALUES / 64;
  FourValues<8> wide[WIDE > 0 ? WIDE : 1];
  FourValues<4> half;
  FourValues<2> quarter;
  FourValuesOfOne eighth;
  template <bool ALL = false>
  MEMBER void load(const char* const* rows, u32 group) {
#pragma unroll
    for (int c = 0; c < WIDE; ++c) wide[c].template load<ALL>(rows, c * 128 + group * 16);
    if (VALUES % 64 >= 32) half.template load<ALL>(rows, WIDE * 128 + group * 8);
    if (VALUES % 32 >= 16) quarter.template load<ALL>(rows, VALUES / 32 * 64 + group * 4);
    if (VALUES % 16 != 0) eighth.template load<ALL>(rows, (VALUES - 8) * 2 + group * 2);
  }
  // One of a thread's four keys counts for nothing.
  MEMBER void clear(int key) {
#pragma unroll
    for (int c = 0; c < WIDE; ++c) wide[c].clear(key);
    half.clear(key);
    quarter.clear(key);
    eighth.clear(key);
  }
  template <bool BF16, int COUNT>
  MEMBER void multiply(float (*out)[COUNT], const u32* weights) const {
#pragma unroll
    for (int c = 0; c < WIDE; ++c) wide[c].template multiply<BF16>(out + 8 * c, weights);
    if (VALUES % 64 >= 32) half.template multiply<BF16>(out + 8 * WIDE, weights);
    if (VALUES % 32 >= 16) quarter.template multiply<BF16>(out + VALUES / 32 * 4, weights);
    if (VALUES % 16 != 0) eighth.template multiply<BF16>(out + VALUES / 8 - 1, weights);
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_VALUES_CUH_
