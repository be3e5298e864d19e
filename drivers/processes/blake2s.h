// Blake2s: the hash BLAKE2s of RFC 7693, with or without a key. Internal to drivers/processes.
//
// Our own implementation, because no library that the runtime may link has a hash with a secret key:
// flatbuffers and mimalloc have none, and xxHash's seed can be derived from its outputs. BLAKE2s needs only
// 32-bit additions, xors and rotations, so its time does not depend on the data. It takes a key directly,
// while SHA-256 would need HMAC.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::processes {

// One hash: Add any number of times, Finish once.
class Blake2s {
 public:
  static constexpr size_t kBytes = 32;   // of the hash
  static constexpr size_t kMaxKey = 32;  // bytes

  Blake2s() : Blake2s(nullptr, 0) {}
  // `key_bytes` at most kMaxKey.
  Blake2s(const uint8_t* key, size_t key_bytes);
  void Add(const void* bytes, size_t size);
  void Finish(uint8_t (&hash)[kBytes]);

 private:
  static constexpr size_t kBlock = 64;
  void Compress(bool last);

  uint32_t state_[8];
  uint64_t hashed_ = 0;  // bytes, including those in the current block
  size_t used_ = 0;      // bytes of the block
  uint8_t block_[kBlock] = {};
};

}  // namespace rondo::processes
