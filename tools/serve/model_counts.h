// ModelCounts: counters of one model's requests, for /metrics.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace rondo::serve {

// Durations in fixed buckets of seconds; the last bucket takes all longer ones.
class DurationCounts {
 public:
  static constexpr std::array<double, 15> kLimits = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,   0.5,   1,      2.5,   5,    10,    60};
  void Add(std::chrono::nanoseconds duration) {
    const double seconds = static_cast<double>(duration.count()) * 1e-9;
    size_t i = 0;
    while (i < kLimits.size() && seconds > kLimits[i]) ++i;
    buckets[i].fetch_add(1, std::memory_order_relaxed);
    nanoseconds.fetch_add(static_cast<uint64_t>(duration.count()), std::memory_order_relaxed);
  }
  std::array<std::atomic<uint64_t>, kLimits.size() + 1> buckets = {};
  std::atomic<uint64_t> nanoseconds{0};
};

struct ModelCounts {
  std::array<std::atomic<uint64_t>, 6> answers = {};  // by the first digit of the status
  std::atomic<uint64_t> refused{0};                   // refused because the queue was full
  std::atomic<uint64_t> runs{0}, joined{0};           // joined: requests that shared another one's run
  std::atomic<uint64_t> prompt_tokens{0}, tokens{0};  // for language models
  std::atomic<uint64_t> loads{0}, failed_loads{0};
  DurationCounts waited, took;  // in the queue; from the request to its answer
};

}  // namespace rondo::serve
