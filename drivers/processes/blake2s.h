// Blake2s: the hash BLAKE2s of RFC 7693, with or without a key. Internal to drivers/processes.
//
// A hash of our own because nothing that the runtime may link has one with a key that is meant to be secret:
// flatbuffers and mimalloc have none, xxHash's seed can be found from its outputs. BLAKE2s needs 32-bit
// additions, xors and rotations alone, so that its time does not depend on the data, and takes a key itself,
// where SHA-256 would need HMAC around it.
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
  uint64_t hashed_ = 0;  // bytes, with those of the block at hand
  size_t used_ = 0;      // bytes of the block
  uint8_t block_[kBlock] = {};
};

}  // namespace rondo::processes
