// Authentication: keys, and proofs that somebody knows one. Internal to drivers/processes.
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

// A number that is used once: random, so that nothing that was recorded fits a second time.
struct Nonce {
  uint8_t bytes[16] = {};
};
// kIo where the system has no random numbers.
Status Draw(Nonce* nonce);

struct Bytes {
  const void* data;
  size_t size;
};

// What all who know `secret` make of it. Any length; the empty one gives a key that everybody knows.
Key KeyOf(std::string_view secret);
// The keyed hash of `label`, at most 16 characters, and then of `parts`, which have the same sizes wherever
// the label is the same.
Digest Prove(const Key& key, std::string_view label, std::initializer_list<Bytes> parts);
// In a time that does not depend on where they differ.
bool Same(const Digest& a, const Digest& b);

}  // namespace rondo::processes
