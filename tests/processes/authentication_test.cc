// Processes prove to each other that they know the secret.
#include "drivers/processes/authentication.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace rondo::processes {
namespace {

std::string TextOf(const uint8_t (&hash)[Blake2s::kBytes]) {
  std::string text;
  for (uint8_t byte : hash) {
    char two[3];
    std::snprintf(two, sizeof(two), "%02x", byte);
    text += two;
  }
  return text;
}

// The hash of the bytes 0, 1, 2, ..., added in parts of `part` bytes.
std::string HashOfCounting(size_t size, bool keyed, size_t part) {
  std::vector<uint8_t> bytes(size), key(32);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  std::iota(key.begin(), key.end(), uint8_t{0});
  Blake2s hash(key.data(), keyed ? key.size() : 0);
  for (size_t i = 0; i < size; i += part) hash.Add(bytes.data() + i, std::min(part, size - i));
  uint8_t out[Blake2s::kBytes];
  hash.Finish(out);
  return TextOf(out);
}

// RFC 7693, appendix B, and blake2s-kat.txt of the reference implementation (key 00 01 ... 1f).
TEST(Blake2sTest, GivesThePublishedHashes) {
  Blake2s hash;
  hash.Add("abc", 3);
  uint8_t out[Blake2s::kBytes];
  hash.Finish(out);
  EXPECT_EQ(TextOf(out), "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982");
  const struct {
    size_t size;
    const char* hash;
  } keyed[] = {
      {0, "48a8997da407876b3d79c0d92325ad3b89cbb754d86ab71aee047ad345fd2c49"},
      {1, "40d15fee7c328830166ac3f918650f807e7e01e177258cdc0a39b11f598066f1"},
      {2, "6bb71300644cd3991b26ccd4d274acd1adeab8b1d7914546c1198bbe9fc9d803"},
      {63, "c65382513f07460da39833cb666c5ed82e61b9e998f4b0c4287cee56c3cc9bcd"},
      {64, "8975b0577fd35566d750b362b0897a26c399136df07bababbde6203ff2954ed4"},
      {65, "21fe0ceb0052be7fb0f004187cacd7de67fa6eb0938d927677f2398c132317a8"},
      {255, "3fb735061abc519dfe979e54c1ee5bfad0a9d858b3315bad34bde999efd724dd"},
  };
  for (const auto& known : keyed) {
    for (size_t part : {size_t{1}, size_t{7}, size_t{64}, size_t{300}}) {
      EXPECT_EQ(HashOfCounting(known.size, true, part), known.hash) << known.size << " by " << part;
    }
  }
}

// The data of RFC 7693, appendix E: hashes of many sizes, with and without a key, hashed together.
TEST(Blake2sTest, HashesManySizes) {
  const auto sequence = [](uint32_t seed, size_t size) {
    std::vector<uint8_t> bytes(size);
    uint32_t a = 0xDEAD4BAD * seed, b = 1;
    for (uint8_t& byte : bytes) {
      const uint32_t t = a + b;
      a = b;
      b = t;
      byte = static_cast<uint8_t>(t >> 24);
    }
    return bytes;
  };
  // The RFC's value also covers shorter hashes; this one is from Python's hashlib.
  Blake2s all;
  for (size_t size : {0, 3, 64, 65, 255, 1024}) {
    const std::vector<uint8_t> data = sequence(static_cast<uint32_t>(size), size), key = sequence(32, 32);
    for (size_t key_bytes : {0, 32}) {
      Blake2s one(key.data(), key_bytes);
      one.Add(data.data(), data.size());
      uint8_t out[Blake2s::kBytes];
      one.Finish(out);
      all.Add(out, sizeof(out));
    }
  }
  uint8_t out[Blake2s::kBytes];
  all.Finish(out);
  EXPECT_EQ(TextOf(out), "caf4e0cc2111755c0b9672541eb947406ea171d4b62cb363cf80ab560214d804");
}

TEST(ProofTest, DependsOnEverythingThatItIsOf) {
  const Key key = KeyOf("a secret of some size"), other = KeyOf("a secret of some Size");
  EXPECT_FALSE(Same(key, other));
  EXPECT_FALSE(Same(key, KeyOf("")));
  const uint64_t a = 1, b = 2;
  const Digest proof = Prove(key, "guest", {{&a, sizeof(a)}, {&b, sizeof(b)}});
  EXPECT_TRUE(Same(proof, Prove(key, "guest", {{&a, sizeof(a)}, {&b, sizeof(b)}})));
  EXPECT_FALSE(Same(proof, Prove(other, "guest", {{&a, sizeof(a)}, {&b, sizeof(b)}})));
  EXPECT_FALSE(Same(proof, Prove(key, "listener", {{&a, sizeof(a)}, {&b, sizeof(b)}})));
  EXPECT_FALSE(Same(proof, Prove(key, "guest", {{&b, sizeof(b)}, {&a, sizeof(a)}})));
  for (size_t i = 0; i < sizeof(proof.bytes); ++i) {
    Digest near = proof;
    near.bytes[i] ^= 0x10;
    EXPECT_FALSE(Same(proof, near)) << i;
  }
}

TEST(ProofTest, NoncesDiffer) {
  Nonce one, two;
  ASSERT_TRUE(Draw(&one).ok());
  ASSERT_TRUE(Draw(&two).ok());
  EXPECT_NE(0, std::memcmp(&one, &two, sizeof(one)));
}

}  // namespace
}  // namespace rondo::processes
