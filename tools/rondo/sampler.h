// Sampler: the next token of a text, drawn on the host from its logits.
//
// With temperature, top-k and top-p alone the token is the one that a plan compiled with --sample draws on
// the device (compiler/passes/append_sampling.cc), unless two logits are closer than their rounding: noise is
// a function of token, draw and seed (Philox4x32-10, Salmon et al., SC 2011), and the greatest sum of logit /
// temperature and Gumbel noise is drawn.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace rondo::tools {

struct SamplerSettings {
  double temperature = 0;  // 0: the greatest logit
  int64_t top_k = 0;       // of the K greatest logits; 0: all
  double top_p = 1;        // of the fewest tokens whose probabilities add up to P, of those
  double min_p = 0;        // of those at least so probable, times the likeliest
  // Logits of tokens that the text has: divided by this if above 0, multiplied if below (Keskar et al., CTRL,
  // 2019). Prompts count.
  double repetition_penalty = 1;
  // Taken from logits of tokens that were generated: once, and for each time.
  double presence_penalty = 0, frequency_penalty = 0;
  std::map<int64_t, double> bias;  // added to a token's logit
  uint64_t seed = 0;
};

struct DrawnToken {
  int64_t token = -1;  // -1: a logit is NaN
  // Of the model's own distribution, before settings change it; filled in if asked for.
  float log_probability = 0;
  std::vector<std::pair<int64_t, float>> likeliest;  // tokens and log-probabilities, the likeliest first
};

class Sampler {
 public:
  Sampler() = default;
  // `prompt`: what repetition_penalty counts beside what is drawn. `draws`: how many were made with the seed.
  Sampler(SamplerSettings settings, const std::vector<int64_t>& prompt, int64_t draws = 0);

  // Draws from `logits`, which it changes, and counts the draw. `likeliest`: how many of them are told; < 0:
  // nor is the token's own log-probability. `allowed`: bit i of word i / 32, if token i may be drawn; empty:
  // all.
  DrawnToken Draw(std::vector<float>* logits, int likeliest = -1, std::span<const uint32_t> allowed = {});

 private:
  struct Seen {
    int64_t generated = 0;  // times
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
