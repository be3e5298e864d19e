#include "drivers/processes/blake2s.h"

#include <cstring>

namespace rondo::processes {
namespace {

constexpr uint32_t kStart[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// RFC 7693, section 2.7: the message word for each half of a mixing step, by round.
constexpr uint8_t kOrder[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

uint32_t Rotated(uint32_t word, int right) { return word >> right | word << (32 - right); }

uint32_t WordAt(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
         static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
}

void Mix(uint32_t& a, uint32_t& b, uint32_t& c, uint32_t& d, uint32_t x, uint32_t y) {
  a += b + x;
  d = Rotated(d ^ a, 16);
  c += d;
  b = Rotated(b ^ c, 12);
  a += b + y;
  d = Rotated(d ^ a, 8);
  c += d;
  b = Rotated(b ^ c, 7);
}

}  // namespace

Blake2s::Blake2s(const uint8_t* key, size_t key_bytes) {
  std::memcpy(state_, kStart, sizeof(state_));
  // The parameter block: one hash of kBytes, no tree.
  state_[0] ^= 0x01010000 ^ static_cast<uint32_t>(key_bytes) << 8 ^ static_cast<uint32_t>(kBytes);
  if (key_bytes == 0) return;
  std::memcpy(block_, key, key_bytes);
  used_ = kBlock;
}

void Blake2s::Add(const void* bytes, size_t size) {
  const auto* from = static_cast<const uint8_t*>(bytes);
  while (size != 0) {
    // A full block waits, since the last block is compressed differently.
    if (used_ == kBlock) Compress(false);
    const size_t part = size < kBlock - used_ ? size : kBlock - used_;
    std::memcpy(block_ + used_, from, part);
    used_ += part;
    from += part;
    size -= part;
  }
}

void Blake2s::Finish(uint8_t (&hash)[kBytes]) {
  std::memset(block_ + used_, 0, kBlock - used_);
  Compress(true);
  for (size_t i = 0; i < kBytes; ++i) hash[i] = static_cast<uint8_t>(state_[i / 4] >> 8 * (i % 4));
}

void Blake2s::Compress(bool last) {
  hashed_ += used_;
  used_ = 0;
  uint32_t words[16], v[16];
  for (int i = 0; i < 16; ++i) words[i] = WordAt(block_ + 4 * i);
  std::memcpy(v, state_, sizeof(state_));
  std::memcpy(v + 8, kStart, sizeof(kStart));
  v[12] ^= static_cast<uint32_t>(hashed_);
  v[13] ^= static_cast<uint32_t>(hashed_ >> 32);
  if (last) v[14] = ~v[14];
  for (const uint8_t(&order)[16] : kOrder) {
    for (int i = 0; i < 4; ++i) {
      Mix(v[i], v[4 + i], v[8 + i], v[12 + i], words[order[2 * i]], words[order[2 * i + 1]]);
    }
    for (int i = 0; i < 4; ++i) {
      Mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], words[order[8 + 2 * i]],
          words[order[9 + 2 * i]]);
    }
  }
  for (int i = 0; i < 8; ++i) state_[i] ^= v[i] ^ v[8 + i];
}

}  // namespace rondo::processes
