// Synthetic weights: numbers from a counter-based generator instead of bytes in a file, bit-identical
// wherever they are made (host, device, `rondo compile --write-synthetic`).
//
// Element i of the weight with key k is scale * u, u uniform on the 2^16 multiples of 2^-15 in [-1, 1),
// from the finaliser of MurmurHash3 (fmix64, A. Appleby, public domain) over k + i * odd constant. The
// product is one float multiplication, rounded once to the element type; integers and bools get 0.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/element.h"

namespace rondo {

constexpr uint64_t SyntheticMix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  x ^= x >> 33;
  return x;
}

// The odd constant. Elements i, i + 1, ... of key k equal elements 0, 1, ... of key k + i * this.
inline constexpr uint64_t kSyntheticStride = 0x9e3779b97f4a7c15ull;

constexpr float SyntheticValue(uint64_t key, uint64_t index, float scale) {
  uint64_t bits = SyntheticMix(key + index * kSyntheticStride);
  int32_t u = static_cast<int32_t>(bits >> 48) - 32768;
  return static_cast<float>(u) * (1.0f / 32768.0f) * scale;
}

// The key of a weight: depends on the seed and the weight's name only, so that two programs that name
// the same weight share it.
constexpr uint64_t SyntheticKey(uint64_t seed, std::string_view name) {
  uint64_t h = SyntheticMix(seed ^ 0x52'4f'4e'44'4full);
  for (char c : name) h = SyntheticMix(h ^ static_cast<uint8_t>(c));
  return h;
}

// Mask for synthetic u8 values: `scale` as an integer; a scale of 1 allows all bits.
constexpr uint8_t SyntheticBits(float scale) {
  if (scale == 1 || scale >= 255) return 255;
  return scale > 0 ? static_cast<uint8_t>(scale) : uint8_t{0};
}

// Writes elements [first, first + count) of the weight as `dtype` to `out`. u8: random bytes, masked by
// SyntheticBits; other integers, and FP8: zeros.
inline void FillSyntheticRange(DType dtype, uint64_t key, float scale, uint64_t first, uint64_t count,
                               void* out) {
  if (dtype == DType::kU8) {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t bits = SyntheticMix(key + (first + i) * kSyntheticStride);
      static_cast<uint8_t*>(out)[i] = static_cast<uint8_t>(bits >> 56 & SyntheticBits(scale));
    }
  } else if (!IsFloat(dtype) || IsFp8(dtype)) {
    std::memset(out, 0, static_cast<size_t>(count) * static_cast<size_t>(ByteSize(dtype)));
  } else {
    WithElement(dtype, [&](auto element) {
      using E = decltype(element);
      for (uint64_t i = 0; i < count; ++i) {
        const auto x = static_cast<typename E::Wide>(SyntheticValue(key, first + i, scale));
        static_cast<typename E::Stored*>(out)[i] = E::Narrow(x);
      }
    });
  }
}

// Writes elements [first, first + count) of a part of a weight. The part is a sequence of runs of `run`
// elements; the first begins at the weight's element 0, and each begins `step` elements after the one before
// it (WeightSource::kSynthetic in core/plan.h). run 0: a single run.
inline void FillSyntheticRuns(DType dtype, uint64_t key, float scale, uint64_t run, uint64_t step,
                              uint64_t first, uint64_t count, void* out) {
  auto* to = static_cast<unsigned char*>(out);
  for (uint64_t done = 0; done < count;) {
    const uint64_t at = first + done, within = run == 0 ? at : at % run;
    const uint64_t start = run == 0 ? 0 : at / run * step, left = count - done;
    const uint64_t some = run == 0 || run - within > left ? left : run - within;
    FillSyntheticRange(dtype, key, scale, start + within, some,
                       to + done * static_cast<uint64_t>(ByteSize(dtype)));
    done += some;
  }
}

}  // namespace rondo
