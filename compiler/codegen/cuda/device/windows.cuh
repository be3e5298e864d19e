// Windows that slide along the last spatial axis: convolutions of one channel a group, and pools. A thread
// makes POINTS neighbouring outputs of LANES channels; what neighbours share of the input is read once.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WINDOWS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WINDOWS_CUH_

#include "compiler/codegen/cuda/device/scalar.cuh"
#include "compiler/codegen/cuda/device/vectors.cuh"
#include "compiler/codegen/cuda/device/window_layout.h"

// LANES elements from number `at` on, as floats.
template <typename T, int LANES>
DEV void load_lanes(const char* p, i64 at, float* x) {
  if constexpr (LANES == 1) {
    x[0] = T::load(p, at);
  } else {
    u32 words[LANES * T::SIZE / 4];
    load_words<LANES * T::SIZE / 4>(p + at * T::SIZE, words);
    T::template widen<LANES>(words, x);
  }
}
#define LANE_TYPE(name, type, size)                                           \
  struct name {                                                               \
    static constexpr int SIZE = size;                                         \
    DEV float load(const char* p, i64 at) { return (float)ld_##type(p, at); } \
    template <int N>                                                          \
    DEV void widen(const u32* words, float* x) {                              \
      widen_##type<N>(words, x);                                              \
    }                                                                         \
  };
LANE_TYPE(LaneF32, f32, 4)
LANE_TYPE(LaneF16, f16, 2)
LANE_TYPE(LaneBF16, bf16, 2)
LANE_TYPE(LaneI8, i8, 1)
LANE_TYPE(LaneU8, u8, 1)
LANE_TYPE(LaneI16, i16, 2)
#undef LANE_TYPE

enum WindowKind { WINDOW_PRODUCT, WINDOW_MAX, WINDOW_SUM, WINDOW_MEAN };

// Whether one of `points` outputs has a tap of `taps` at distance s from the first one's first.
constexpr __device__ bool window_reads(int s, int points, int taps, int stride, int dilation) {
  for (int t = 0; t < points; ++t)
    for (int k = 0; k < taps; ++k)
      if (t * stride + k * dilation == s) return true;
  return false;
}

// One line of the windows. `input`: element number of
// coordinate 0, `step` elements from one coordinate to the next, which exist in [0, extent); the first
// output's first tap is at `first`. `weight`: element number of the line's first weight; then `weight_step` a
// tap and `weight_lane` a channel. ABSENT: what stands where there is no input; W: weights.
template <typename T, WindowKind KIND, Window WINDOW, int ABSENT = 0, typename W = T>
struct WindowLine {
  static constexpr int LANES = WINDOW.lanes, POINTS = WINDOW.points, KERNEL = WINDOW.kernel,
                       TAPS = WINDOW.taps, STRIDE = WINDOW.stride, DILATION = WINDOW.dilation,
                       SPAN = WINDOW.span();

  DEV void add(const char* x, i64 input, i64 step, int first, int extent, const char* w, i64 weight,
               i64 weight_step, i64 weight_lane, float (&sums)[POINTS][LANES], int (&present)[POINTS]) {
#pragma unroll(KERNEL <= 32 ? KERNEL : 1)
    for (int tap = 0; tap < KERNEL; tap += TAPS) {
      float window[SPAN][LANES];
      bool there[SPAN];
#pragma unroll
      for (int s = 0; s < SPAN; ++s) {
        if (!window_reads(s, POINTS, TAPS, STRIDE, DILATION)) continue;
        const int c = first + tap * DILATION + s;
        there[s] = (u32)c < (u32)extent;
#pragma unroll
        for (int e = 0; e < LANES; ++e)
          window[s][e] = KIND == WINDOW_MAX ? bits_float(0xff800000u) : (float)ABSENT;
        if (there[s]) load_lanes<T, LANES>(x, input + step * c, window[s]);
      }
#pragma unroll
      for (int k = 0; k < TAPS; ++k) {
        if (tap + k >= KERNEL) continue;
        float factor[LANES];
        if (KIND == WINDOW_PRODUCT) load_factor(w, weight + weight_step * (tap + k), weight_lane, factor);
#pragma unroll
        for (int t = 0; t < POINTS; ++t) {
          const int s = t * STRIDE + k * DILATION;
          if (KIND == WINDOW_MEAN) present[t] += there[s] ? 1 : 0;
#pragma unroll
          for (int e = 0; e < LANES; ++e) {
            if (KIND == WINDOW_PRODUCT) sums[t][e] = __fmaf_rn(window[s][e], factor[e], sums[t][e]);
            if (KIND == WINDOW_MAX) sums[t][e] = op_max(sums[t][e], window[s][e]);
            if (KIND == WINDOW_SUM || KIND == WINDOW_MEAN) sums[t][e] += window[s][e];
          }
        }
      }
    }
  }

  DEV void load_factor(const char* w, i64 at, i64 lane, float* factor) {
    if constexpr (WINDOW.weight_vector) {
      load_lanes<W, LANES>(w, at, factor);
    } else {
#pragma unroll
      for (int e = 0; e < LANES; ++e) factor[e] = W::load(w, at + lane * e);
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WINDOWS_CUH_
