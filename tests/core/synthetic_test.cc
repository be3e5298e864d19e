// Synthetic weights are the numbers that the header states, on any device and in pieces of any size.
#include "core/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace rondo {
namespace {

// The header's definition again: the upper 16 bits of MurmurHash3's fmix64 of k + i * 2^64 / golden ratio.
double Uniform(uint64_t key, uint64_t i) {
  uint64_t h = key + i * 0x9e3779b97f4a7c15ull;
  h = (h ^ h >> 33) * 0xff51afd7ed558ccdull;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53ull;
  return std::ldexp(static_cast<double>((h ^ h >> 33) >> 48), -15) - 1;
}

constexpr uint64_t kKey = 0x1234567890abcdefull;
constexpr float kScale = 0.37f;

std::vector<float> Range(uint64_t first, uint64_t count) {
  std::vector<float> values(count, -7);
  FillSyntheticRange(DType::kF32, kKey, kScale, first, count, values.data());
  return values;
}

TEST(Synthetic, ValuesAreUniformMultiplesOfTheScale) {
  const std::vector<float> values = Range(0, 5000);
  for (uint64_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(values[i], static_cast<float>(Uniform(kKey, i)) * kScale) << i;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_LT(*least, -0.99f * kScale);
  EXPECT_GT(*most, 0.99f * kScale);
}

TEST(Synthetic, EveryTypeHasTheSameNumbersRoundedOnce) {
  const std::vector<float> values = Range(3, 100);
  std::vector<double> f64(100);
  std::vector<uint16_t> f16(100), bf16(100);
  FillSyntheticRange(DType::kF64, kKey, kScale, 3, 100, f64.data());
  FillSyntheticRange(DType::kF16, kKey, kScale, 3, 100, f16.data());
  FillSyntheticRange(DType::kBF16, kKey, kScale, 3, 100, bf16.data());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(f64[i], static_cast<double>(values[i]));
    EXPECT_EQ(f16[i], FloatToF16(values[i]));
    EXPECT_EQ(bf16[i], FloatToBF16(values[i]));
  }
  std::vector<int32_t> whole(100, 5);
  FillSyntheticRange(DType::kI32, kKey, kScale, 3, 100, whole.data());
  EXPECT_EQ(whole, std::vector<int32_t>(100, 0));
}

TEST(Synthetic, BytesHaveTheBitsOfTheirScale) {
  for (const auto& [scale, bits] :
       {std::pair{1.0f, 255}, {255.0f, 255}, {300.0f, 255}, {15.0f, 15}, {3.0f, 3}, {0.0f, 0}}) {
    std::vector<uint8_t> bytes(2000);
    FillSyntheticRange(DType::kU8, kKey, scale, 0, bytes.size(), bytes.data());
    int seen = 0;
    for (const uint8_t byte : bytes) seen |= byte;
    EXPECT_EQ(seen, bits) << scale;
    std::sort(bytes.begin(), bytes.end());
    EXPECT_EQ(std::unique(bytes.begin(), bytes.end()) - bytes.begin(),
              1 << std::popcount(static_cast<unsigned>(bits)));
  }
}

TEST(Synthetic, PartsAreRunsOfTheWhole) {
  const std::vector<float> whole = Range(0, 200);
  for (const auto& [run, step] : {std::pair<uint64_t, uint64_t>{0, 0}, {1, 3}, {4, 10}, {7, 7}, {50, 60}}) {
    for (const uint64_t first : {0, 1, 5, 13}) {
      for (const uint64_t count : {0, 1, 3, 7, 20}) {
        std::vector<float> part(count + 1, -7);
        FillSyntheticRuns(DType::kF32, kKey, kScale, run, step, first, count, part.data());
        for (uint64_t i = 0; i < count; ++i) {
          const uint64_t at = first + i;
          EXPECT_EQ(part[i], whole[run == 0 ? at : at / run * step + at % run]) << run << " " << at;
        }
        EXPECT_EQ(part[count], -7);
      }
    }
  }
}

TEST(Synthetic, KeysAreOfTheSeedAndOfTheWholeName) {
  EXPECT_EQ(SyntheticKey(1, "layers.0.w"), SyntheticKey(1, "layers.0.w"));
  const std::vector<uint64_t> keys = {SyntheticKey(1, ""),   SyntheticKey(2, ""),   SyntheticKey(1, "a"),
                                      SyntheticKey(1, "ab"), SyntheticKey(1, "ba"), SyntheticKey(2, "ab")};
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(std::count(keys.begin(), keys.end(), keys[i]), 1) << i;
}

}  // namespace
}  // namespace rondo
