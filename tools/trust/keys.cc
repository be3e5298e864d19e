#include "tools/trust/keys.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/files.h"
#include "tools/trust/signature.h"

namespace rondo::trust {
namespace {

// How a PEM file holds one kind of key: its label, and the DER bytes before the key's 32 bytes (RFC 8410).
struct KeyKind {
  const char* label;
  const char* name;
  std::vector<uint8_t> prefix;
};
const KeyKind kPublic = {
    "PUBLIC KEY", "public", {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}};
const KeyKind kSecret = {
    "PRIVATE KEY",
    "secret",
    {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20}};

using KeyBytes = std::array<uint8_t, 32>;

std::string Line(const char* what, const KeyKind& kind) {
  return std::string("-----") + what + " " + kind.label + "-----";
}

std::string PemOf(const KeyKind& kind, const uint8_t* key) {
  std::vector<uint8_t> der = kind.prefix;
  der.insert(der.end(), key, key + 32);
  std::string text(sodium_base64_ENCODED_LEN(der.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(text.data(), text.size(), der.data(), der.size(), sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();  // the terminating zero
  sodium_memzero(der.data(), der.size());
  return Line("BEGIN", kind) + "\n" + text + "\n" + Line("END", kind) + "\n";
}

// All keys of one kind in the text of a PEM file.
std::vector<KeyBytes> KeysIn(const std::string& text, const KeyKind& kind) {
  std::vector<KeyBytes> keys;
  const std::string begin = Line("BEGIN", kind);
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
    const size_t first = at + begin.size(), last = text.find(Line("END", kind), first);
    if (last == text.npos) break;
    std::vector<uint8_t> der(kind.prefix.size() + 32);
    size_t size = 0;
    if (sodium_base642bin(der.data(), der.size(), text.data() + first, last - first, "\r\n ", &size, nullptr,
                          sodium_base64_VARIANT_ORIGINAL) == 0 &&
        size == der.size() && std::equal(kind.prefix.begin(), kind.prefix.end(), der.begin())) {
      std::copy_n(der.end() - 32, 32, keys.emplace_back().begin());
    }
    sodium_memzero(der.data(), der.size());
  }
  return keys;
}

Result<std::vector<KeyBytes>> ReadKeys(const std::string& path, const KeyKind& kind) {
  RONDO_RETURN_IF_ERROR(StartSodium());
  RONDO_ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, ReadInputFile(path, uint64_t{1} << 20));
  std::string text(bytes.begin(), bytes.end());
  std::vector<KeyBytes> keys = KeysIn(text, kind);
  sodium_memzero(bytes.data(), bytes.size());
  sodium_memzero(text.data(), text.size());
  if (!keys.empty()) return keys;
  return Status::Error(
      Code::kInvalidArgument,
      "%s: has no %s key of Ed25519 (-----BEGIN %s-----); `rondo sign --new-key F` writes the secret "
      "key F and the public key F.pub",
      path.c_str(), kind.name, kind.label);
}

Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (file.get() < 0 || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return Status::Error(Code::kIo, "%s: cannot be made: %s", path.c_str(), std::strerror(errno));
  return Status::Ok();
}

}  // namespace

SecretKey::~SecretKey() { sodium_memzero(bytes.data(), bytes.size()); }

Status StartSodium() {
  if (sodium_init() >= 0) return Status::Ok();
  return Status::Error(Code::kInternal, "libsodium cannot be started: the system gives no random numbers");
}

std::string Hex(Span<const uint8_t> bytes) {
  std::string digits(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(digits.data(), digits.size(), bytes.data(), bytes.size());
  digits.pop_back();
  return digits;
}

bool FromHex(std::string_view digits, Span<uint8_t> bytes) {
  size_t size = 0;
  return digits.size() == 2 * bytes.size() &&
         sodium_hex2bin(bytes.data(), bytes.size(), digits.data(), digits.size(), nullptr, &size, nullptr) ==
             0 &&
         size == bytes.size();
}

Result<std::vector<PublicKey>> ReadPublicKeys(const std::string& path) { return ReadKeys(path, kPublic); }

Result<SecretKey> ReadSecretKey(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(std::vector<KeyBytes> seeds, ReadKeys(path, kSecret));
  SecretKey key;
  PublicKey unused;
  crypto_sign_seed_keypair(unused.data(), key.bytes.data(), seeds[0].data());
  sodium_memzero(seeds.data(), seeds.size() * sizeof(KeyBytes));
  return key;
}

Status MakeKeys(const std::string& path) {
  RONDO_RETURN_IF_ERROR(StartSodium());
  SecretKey secret;
  PublicKey key;
  crypto_sign_keypair(key.data(), secret.bytes.data());
  std::string text = PemOf(kSecret, secret.bytes.data());
  const Status written = WriteNew(path, text, 0600);
  sodium_memzero(text.data(), text.size());
  RONDO_RETURN_IF_ERROR(written);
  return WriteNew(path + ".pub", PemOf(kPublic, key.data()), 0644);
}

}  // namespace rondo::trust
