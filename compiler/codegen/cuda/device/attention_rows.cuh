// Online softmax of a warp's rows: results so far, weighed relative to the greatest score so far.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_ROWS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_ROWS_CUH_

#include "compiler/codegen/cuda/device/attention_scores.cuh"

// What a thread has of HALVES rows, `group` and, of a warp's 16 rows, `group` + 8: VALUES / 4 features of
// each.
template <int VALUES, int HALVES = 2>
struct AttentionRows {
  static constexpr int ROWS = HALVES;  // of a thread
  float out[VALUES / 8][2 * HALVES];
  float most[HALVES],
      total[HALVES];  // the row's greatest score; the sum of exp2(score - most), this thread's share

  MEMBER void clear() {
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
      most[h] = kNoScore;
      total[h] = 0;
    }
#pragma unroll
    for (int v = 0; v < VALUES / 8; ++v)
#pragma unroll
      for (int x = 0; x < 2 * HALVES; ++x) out[v][x] = 0;
  }
  // Takes the scores of 8 * COUNT keys in, as weights relative to the greatest score so far. `unit` turns a
  // score into one of base 2.
  template <int COUNT>
  MEMBER void weigh(float (*s)[4], float unit) {
    float scale[HALVES];
    weigh<COUNT>(s, unit, scale);
    rescale(scale);
  }
  // The same without the results: they are to be multiplied by `scale`.
  template <int COUNT>
  MEMBER void weigh(float (*s)[4], float unit, float* scale) {
    float base[HALVES];
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
      float high[2] = {s[0][2 * h], s[0][2 * h + 1]};
#pragma unroll
      for (int j = 1; j < COUNT; ++j)
#pragma unroll
        for (int x = 0; x < 2; ++x) high[x] = fmaxf(high[x], s[j][2 * h + x]);
      const float now = fmaxf(most[h], quad_max(fmaxf(high[0], high[1])));
      base[h] = score_base(now);
      scale[h] = quick_exp2((most[h] - base[h]) * unit);
      most[h] = now;
    }
    // Their product with `unit` is rounded by more than a score may be.
    if (__any_sync(0xffffffffu, is_far_score(base[0]) || is_far_score(base[HALVES - 1]))) {
#pragma unroll
      for (int j = 0; j < COUNT; ++j)
#pragma unroll
        for (int x = 0; x < 2 * HALVES; ++x) s[j][x] -= base[x / 2];
#pragma unroll
      for (int h = 0; h < HALVES; ++h) base[h] = 0;
    }
#pragma unroll
    for (int h = 0; h < HALVES; ++h) base[h] *= unit;
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
#pragma unroll
      for (int x = 0; x < 2 * HALVES; ++x) s[j][x] = quick_exp2(__fmaf_rn(s[j][x], unit, -base[x / 2]));
    }
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
      float sum[2] = {s[0][2 * h], s[0][2 * h + 1]};
#pragma unroll
      for (int j = 1; j < COUNT; ++j)
#pragma unroll
        for (int x = 0; x < 2; ++x) sum[x] += s[j][2 * h + x];
      total[h] = __fmaf_rn(total[h], scale[h], sum[0] + sum[1]);
    }
  }
  MEMBER void rescale(const float* scale) {
    if (__any_sync(0xffffffffu, scale[0] != 1.0f || scale[HALVES - 1] != 1.0f)) {
#pragma unroll
      for (int v = 0; v < VALUES / 8; ++v)
#pragma unroll
        for (int x = 0; x < 2 * HALVES; ++x) out[v][x] *= scale[x / 2];
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ATTENTION_ROWS_CUH_
