// Random: numbers that are the same on every machine; std::shuffle and the std distributions are not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::packing {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  // Uniform in [0, n), n >= 1.
  size_t Below(size_t n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<size_t>((state_ >> 11) % n);
  }

 private:
  uint64_t state_;
};

}  // namespace rondo::packing
