#include "tools/rondo/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace rondo::tools {

namespace {

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0], second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
  }
  return counter;
}

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// The log-probabilities that the model gives: of `token`, and of the likeliest.
void TellProbabilities(const std::vector<float>& logits, int likeliest, DrawnToken* drawn) {
  const float greatest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit - greatest));
  const auto log_of = [&](int64_t token) {
    return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(token)] - greatest) -
                              std::log(sum));
  };
  drawn->log_probability = log_of(drawn->token);
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min<ptrdiff_t>(likeliest, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (ptrdiff_t i = 0; i < count; ++i)
    drawn->likeliest.emplace_back(order[static_cast<size_t>(i)], log_of(order[static_cast<size_t>(i)]));
}

}  // namespace

float GumbelNoise(int64_t token, int64_t draw, uint64_t seed) {
  // Four tokens have a counter, and each a word of what it gives.
  const auto number = static_cast<uint64_t>(draw);
  const auto words =
      Philox({Low(number), static_cast<uint32_t>(token / 4), High(number), 0}, {Low(seed), High(seed)});
  float u = (static_cast<float>(words[static_cast<size_t>(token % 4)]) + 0.5f) * (1.0f / 4294967296.0f);
  u = std::min(u, 1 - 1.0f / 16777216.0f);
  return -std::log(-std::log1p(-u));
}

Sampler::Sampler(SamplerSettings settings, const std::vector<int64_t>& prompt, int64_t draws)
    : settings_(std::move(settings)), draw_(draws) {
  if (settings_.repetition_penalty == 1) return;
  for (int64_t token : prompt) seen_[token];
}

void Sampler::Change(std::span<const uint32_t> allowed, std::vector<float>* logits) const {
  const auto count = std::ssize(*logits);
  for (const auto& [token, seen] : seen_) {
    if (token < 0 || token >= count) continue;
    float& logit = (*logits)[static_cast<size_t>(token)];
    const auto repetition = static_cast<float>(settings_.repetition_penalty);
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (seen.generated == 0) continue;
    logit -= static_cast<float>(settings_.presence_penalty +
                                settings_.frequency_penalty * static_cast<double>(seen.generated));
  }
  for (const auto& [token, bias] : settings_.bias) {
    if (token >= 0 && token < count) (*logits)[static_cast<size_t>(token)] += static_cast<float>(bias);
  }
  if (allowed.empty()) return;
  for (size_t i = 0; i < logits->size(); ++i) {
    const bool may = (allowed[i / 32] >> (i % 32) & 1) != 0;
    float& logit = (*logits)[i];
    // What may be drawn is above what may not, even where the model gives it no chance.
    logit =
        may ? std::max(logit, std::numeric_limits<float>::lowest()) : -std::numeric_limits<float>::infinity();
  }
}

int64_t Sampler::Choose(const std::vector<float>& logits) const {
  const auto greatest = std::max_element(logits.begin(), logits.end());
  if (!(settings_.temperature > 0) || !std::isfinite(*greatest)) return greatest - logits.begin();
  const float rate = static_cast<float>(std::min(1 / settings_.temperature, 1e30));
  std::vector<float> sorted;  // only where an order is asked for
  float least = -std::numeric_limits<float>::infinity();
  if (settings_.top_k > 0 && settings_.top_k < std::ssize(logits)) {
    sorted = logits;
    std::nth_element(sorted.begin(), sorted.begin() + settings_.top_k - 1, sorted.end(),
                     std::greater<float>());
    least = sorted[static_cast<size_t>(settings_.top_k - 1)];
  }
  const auto weight = [&](float logit) { return std::exp((logit - *greatest) * rate); };
  if (settings_.top_p > 0 && settings_.top_p < 1) {
    sorted.clear();
    for (float logit : logits) {
      if (logit >= least) sorted.push_back(logit);
    }
    std::sort(sorted.begin(), sorted.end(), std::greater<float>());
    double all = 0, sum = 0;
    for (float logit : sorted) all += weight(logit);
    for (float logit : sorted) {
      least = logit;
      sum += weight(logit);
      if (sum >= settings_.top_p * all) break;
    }
  }
  int64_t best = greatest - logits.begin();
  float best_score = -std::numeric_limits<float>::infinity();
  for (int64_t token = 0; token < std::ssize(logits); ++token) {
    const float logit = logits[static_cast<size_t>(token)];
    // Noise is between -2.9 and 22.9: nothing further down is ever drawn.
    if (logit < least || (*greatest - logit) * rate > 32 || weight(logit) < settings_.min_p) continue;
    const float score = (logit - *greatest) * rate + GumbelNoise(token, draw_, settings_.seed);
    if (score > best_score) best = token, best_score = score;
  }
  return best;
}

DrawnToken Sampler::Draw(std::vector<float>* logits, int likeliest, std::span<const uint32_t> allowed) {
  DrawnToken drawn;
  const bool spoilt =
      std::any_of(logits->begin(), logits->end(), [](float logit) { return std::isnan(logit); });
  if (spoilt || logits->empty()) return drawn;
  const bool changes = !seen_.empty() || !settings_.bias.empty() || !allowed.empty();
  const std::vector<float> own = changes && likeliest >= 0 ? *logits : std::vector<float>();
  if (changes) Change(allowed, logits);
  drawn.token = Choose(*logits);
  ++draw_;
  if (likeliest >= 0) TellProbabilities(own.empty() ? *logits : own, likeliest, &drawn);
  const bool counts = settings_.repetition_penalty != 1 || settings_.presence_penalty != 0 ||
                      settings_.frequency_penalty != 0;
  if (counts) ++seen_[drawn.token].generated;
  return drawn;
}

}  // namespace rondo::tools
