// Random choices of the mutators: reproducible from a seed alone, on every machine.
#pragma once

#include <cstdint>

namespace rondo::fuzz {

// SplitMix64 (S. Vigna, public domain).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // In [0, n); 0 when n is 0.
  uint64_t Below(uint64_t n) { return n == 0 ? 0 : Next() % n; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  // A damaged value for an integer field that holds `old`: near it, or at the edge of some range.
  int64_t Integer(int64_t old) {
    const uint64_t u = static_cast<uint64_t>(old);
    switch (Below(12)) {
      case 0: return static_cast<int64_t>(u + 1);
      case 1: return static_cast<int64_t>(u - 1);
      case 2: return 0;
      case 3: return static_cast<int64_t>(u * 2);
      case 4: return old / 2;
      case 5: return static_cast<int64_t>(0 - u);
      case 6: return static_cast<int64_t>(u + (uint64_t{1} << Below(16)));
      case 7: return static_cast<int64_t>(u - (uint64_t{1} << Below(16)));
      case 8: return static_cast<int64_t>(uint64_t{1} << Below(64));
      case 9: return static_cast<int64_t>((uint64_t{1} << Below(64)) - 1);
      case 10: return static_cast<int64_t>(u ^ (uint64_t{1} << Below(64)));
      default: return static_cast<int64_t>(Below(16));
    }
  }
  double Real(double old) {
    switch (Below(10)) {
      case 0: return 0;
      case 1: return -old;
      case 2: return old + 1;
      case 3: return __builtin_inf();
      case 4: return -__builtin_inf();
      case 5: return __builtin_nan("");
      case 6: return 1e300;
      case 7: return 5e-324;
      case 8: return static_cast<double>(Integer(static_cast<int64_t>(Below(100))));
      default: return old * 0.5;
    }
  }

 private:
  uint64_t state_;
};

}  // namespace rondo::fuzz
