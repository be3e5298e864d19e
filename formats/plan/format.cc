#include "formats/plan/format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace rondo {

#if defined(__OPTIMIZE__) && !defined(__clang__)
#define RONDO_FASTEST [[gnu::optimize("O3")]]  // vectorised if that pays
#else
#define RONDO_FASTEST
#endif

namespace {

constexpr uint64_t kShort = 240;  // XXH3 uses another formula for more bytes
constexpr uint64_t kStripe = 64, kStripesABlock = 16;

uint64_t Word(const void* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

// XXH3-64 of more than kShort bytes by its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
// The code is a fraction of the library's size and takes the bytes piece by piece.
class LongHash {
 public:
  [[gnu::noinline]] explicit LongHash(uint64_t seed) {
    for (size_t i = 0; i < sizeof(secret_); i += 16) {
      const uint64_t pair[2] = {Word(XXH3_kSecret + i) + seed, Word(XXH3_kSecret + i + 8) - seed};
      std::memcpy(secret_ + i, pair, sizeof(pair));
    }
  }
  // Adds the next whole stripes, except the one that ends with the last byte.
  RONDO_FASTEST [[gnu::noinline]] void Add(const uint8_t* at, uint64_t stripes) {
    for (; stripes != 0; --stripes, at += kStripe) {
      Accumulate(at, secret_ + stripe_ * 8);
      if (++stripe_ < kStripesABlock) continue;
      stripe_ = 0;
      for (int i = 0; i < 8; ++i) {
        sums_[i] = (sums_[i] ^ sums_[i] >> 47 ^ Word(secret_ + 128 + i * 8)) * XXH_PRIME32_1;
      }
    }
  }
  // `last`: the last kStripe bytes of `size`.
  [[gnu::noinline]] uint64_t End(const uint8_t* last, uint64_t size) {
    Accumulate(last, secret_ + 121);
    uint64_t hash = size * XXH_PRIME64_1;
    for (int i = 0; i < 8; i += 2) {
      const unsigned __int128 product =
          static_cast<unsigned __int128>(sums_[i] ^ Word(secret_ + 11 + i * 8)) *
          (sums_[i + 1] ^ Word(secret_ + 19 + i * 8));
      hash += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }
    hash = (hash ^ hash >> 37) * 0x165667919E3779F9u;
    return hash ^ hash >> 32;
  }

 private:
  void Accumulate(const uint8_t* at, const uint8_t* secret) {
    for (int i = 0; i < 8; ++i) {
      const uint64_t word = Word(at + i * 8), key = word ^ Word(secret + i * 8);
      sums_[i ^ 1] += word;
      sums_[i] += (key & 0xffffffff) * (key >> 32);
    }
  }
  uint64_t sums_[8] = {XXH_PRIME32_3, XXH_PRIME64_1, XXH_PRIME64_2, XXH_PRIME64_3,
                       XXH_PRIME64_4, XXH_PRIME32_2, XXH_PRIME64_5, XXH_PRIME32_1};
  uint64_t stripe_ = 0;  // of the current block
  uint8_t secret_[192];
};

}  // namespace

uint64_t HashBytes(const void* bytes, size_t size, uint64_t seed) {
  // Calls the library's short formulas directly: its public function would link all the rest.
  const auto* at = static_cast<const uint8_t*>(bytes);
  if (size <= 16) return XXH3_len_0to16_64b(at, size, XXH3_kSecret, seed);
  if (size <= 128) return XXH3_len_17to128_64b(at, size, XXH3_kSecret, sizeof(XXH3_kSecret), seed);
  if (size <= kShort) return XXH3_len_129to240_64b(at, size, XXH3_kSecret, sizeof(XXH3_kSecret), seed);
  LongHash hash(seed);
  hash.Add(at, (size - 1) / kStripe);
  return hash.End(at + size - kStripe, size);
}

Result<uint64_t> HashRead(uint64_t size,
                          Status (*read)(void* user, uint64_t offset, uint64_t count, void* to), void* user) {
  uint8_t some[32 << 10];  // whole blocks
  if (size <= kShort) {
    RONDO_RETURN_IF_ERROR(read(user, 0, size, some));
    return HashBytes(some, size);
  }
  LongHash hash(0);
  const uint64_t end = (size - 1) / kStripe * kStripe;
  for (uint64_t at = 0; at < end;) {
    const uint64_t count = end - at < sizeof(some) ? end - at : sizeof(some);
    RONDO_RETURN_IF_ERROR(read(user, at, count, some));
    hash.Add(some, count / kStripe);
    at += count;
  }
  RONDO_RETURN_IF_ERROR(read(user, size - kStripe, kStripe, some));
  return hash.End(some, size);
}

uint64_t HeaderHash(FileHeader header, const SectionEntry* sections) {
  header.header_hash = 0;
  uint64_t hash = HashBytes(&header, sizeof(header));
  return HashBytes(sections, header.num_sections * sizeof(SectionEntry), hash);
}

bool IsBaseName(std::string_view name) {
  bool other = false;  // a character that is not a dot: "." and ".." are no valid names
  for (const char c : name) {
    if (c == '/' || c == '\0') return false;
    other |= c != '.';
  }
  return (other || name.size() > 2) && name.size() <= 255;
}

}  // namespace rondo
