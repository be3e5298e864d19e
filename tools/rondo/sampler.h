// Sampler: the next token of a text, drawn on the host from its logits.
//
// The drawn token is the one with the greatest sum of logit / temperature and Gumbel noise. The noise is a
// function of token, draw and seed (Philox4x32-10, Salmon et al., SC 2011). With only temperature, top-k and
// top-p set, a plan compiled with --sample draws the same token on the device
// (compiler/passes/append_sampling.cc), unless two logits are closer than their rounding.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace rondo::tools {

struct SamplerSettings {
  double temperature = 0;  // 0: the greatest logit
  int64_t top_k = 0;       // only the K greatest logits; 0: all
  double top_p = 1;        // of those, only the fewest tokens whose probabilities add up to P
  double min_p = 0;        // only tokens at least this times as probable as the likeliest
  // Logits of tokens that occur in the text or its prompt are divided by this if above 0, and multiplied by
  // it if below (Keskar et al., CTRL, 2019).
  double repetition_penalty = 1;
  // Subtracted from logits of generated tokens: once, and once for each occurrence.
  double presence_penalty = 0, frequency_penalty = 0;
  std::map<int64_t, double> bias;  // added to a token's logit
  uint64_t seed = 0;
};

struct DrawnToken {
  int64_t token = -1;  // -1: a logit is NaN
  // From the model's own distribution, before settings change it; filled in if requested.
  float log_probability = 0;
  std::vector<std::pair<int64_t, float>> likeliest;  // tokens and log-probabilities, the likeliest first
};

class Sampler {
 public:
  Sampler() = default;
  // `prompt`: its tokens count for repetition_penalty, like drawn ones. `draws`: draws already made with the
  // seed.
  Sampler(SamplerSettings settings, const std::vector<int64_t>& prompt, int64_t draws = 0);

  // Draws from `logits`, which it changes, and counts the draw. `likeliest`: the number of likeliest tokens
  // to report; < 0: not even the drawn token's log-probability. `allowed`: token i may be drawn if bit i % 32
  // of word i / 32 is set; empty: all may.
  DrawnToken Draw(std::vector<float>* logits, int likeliest = -1, std::span<const uint32_t> allowed = {});

 private:
  struct Seen {
    int64_t generated = 0;  // number of times
  };
  void Change(std::span<const uint32_t> allowed, std::vector<float>* logits) const;
  int64_t Choose(const std::vector<float>& logits) const;

  SamplerSettings settings_;
  int64_t draw_ = 0;
  std::map<int64_t, Seen> seen_;
};

// -log(-log(u)), u in (0, 1) a function of the three.
float GumbelNoise(int64_t token, int64_t draw, uint64_t seed);

}  // namespace rondo::tools
