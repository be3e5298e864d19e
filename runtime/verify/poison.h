// The pattern that fills memory which nothing has written.
#pragma once

#include <cstdint>

#include "core/synthetic.h"

namespace rondo::verify {

// Byte `at` of a region: NaN in every float type (each aligned pair of bytes is 0xff81 to 0xffff, or,
// negated, 0x7f81 to 0x7fff), different from place to place. The two variants differ in every byte.
class Poison {
 public:
  explicit Poison(bool second) : flip_(second ? 0x807e807e807e807eull : 0) {}
  uint8_t At(uint64_t at) const { return static_cast<uint8_t>(Word(at / 8) >> (at % 8 * 8)); }
  void Fill(uint64_t first, uint64_t bytes, uint8_t* out) const {
    for (uint64_t i = 0; i < bytes; ++i) out[i] = At(first + i);
  }

 private:
  uint64_t Word(uint64_t index) const {
    return ((SyntheticMix(index) & 0x007e007e007e007eull) | 0xff81ff81ff81ff81ull) ^ flip_;
  }
  uint64_t flip_;
};

}  // namespace rondo::verify
