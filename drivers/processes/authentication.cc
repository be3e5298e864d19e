#include "drivers/processes/authentication.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace rondo::processes {

Status Draw(Nonce* nonce) {
  if (getrandom(nonce->bytes, sizeof(nonce->bytes), 0) == sizeof(nonce->bytes)) return Status::Ok();
  return Status::Error(Code::kIo, "no random numbers from the system: %s", std::strerror(errno));
}

Key KeyOf(std::string_view secret) {
  constexpr std::string_view kLabel = "rondo processes 1";
  Blake2s hash;
  hash.Add(kLabel.data(), kLabel.size());
  hash.Add(secret.data(), secret.size());
  Key key;
  hash.Finish(key.bytes);
  return key;
}

Digest Prove(const Key& key, std::string_view label, std::initializer_list<Bytes> parts) {
  char padded[16] = {};
  std::memcpy(padded, label.data(), label.size() < sizeof(padded) ? label.size() : sizeof(padded));
  Blake2s hash(key.bytes, sizeof(key.bytes));
  hash.Add(padded, sizeof(padded));
  for (const Bytes& part : parts) hash.Add(part.data, part.size);
  Digest digest;
  hash.Finish(digest.bytes);
  return digest;
}

bool Same(const Digest& a, const Digest& b) {
  volatile uint8_t differing = 0;
  for (size_t i = 0; i < sizeof(a.bytes); ++i) {
    differing = static_cast<uint8_t>(differing | (a.bytes[i] ^ b.bytes[i]));
  }
  return differing == 0;
}

}  // namespace rondo::processes
