// Random numbers that are the same on every machine.
#pragma once

#include <cstdint>

namespace rondo {

class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 77 + 1) {}
  // From 0 to n - 1.
  int64_t Below(int64_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

}  // namespace rondo
