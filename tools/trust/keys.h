// Keys in PEM files, and hexadecimal digits.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/span.h"
#include "core/status.h"

namespace rondo::trust {

// A seed of 32 bytes and the public key. The destructor wipes it.
struct SecretKey {
  std::array<uint8_t, 64> bytes{};
  SecretKey() = default;
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();
};

// kInvalidArgument if the file has no secret key of Ed25519.
Result<SecretKey> ReadSecretKey(const std::string& path);

std::string Hex(Span<const uint8_t> bytes);
// False unless `digits` are exactly the digits of `bytes`.
bool FromHex(std::string_view digits, Span<uint8_t> bytes);

// Initialises libsodium. Call it before any other function of libsodium.
Status StartSodium();

}  // namespace rondo::trust
