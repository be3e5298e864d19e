// Authentication: keys, and proofs of knowing a key. Internal to drivers/processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "core/status.h"
#include "drivers/processes/blake2s.h"

namespace rondo::processes {

struct Digest {
  uint8_t bytes[Blake2s::kBytes] = {};
};
using Key = Digest;

// A random number that is used once, so that recorded messages are useless later.
struct Nonce {
  uint8_t bytes[16] = {};
};
// kIo where the system has no random numbers.
Status Draw(Nonce* nonce);

struct Bytes {
  const void* data;
  size_t size;
};

// The key of `secret`. Any length; the empty secret gives a key that everybody knows.
Key KeyOf(std::string_view secret);
// The keyed hash of `label` (at most 16 characters) and `parts`. Parts must have the same sizes wherever the
// label is the same.
Digest Prove(const Key& key, std::string_view label, std::initializer_list<Bytes> parts);
// Takes the same time wherever they differ.
bool Same(const Digest& a, const Digest& b);

}  // namespace rondo::processes
