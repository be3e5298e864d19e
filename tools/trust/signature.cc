#include "tools/trust/signature.h"

#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "core/files.h"
#include "tools/trust/keys.h"

namespace rondo::trust {
namespace {

constexpr const char* kFirstLine = "rondo signature 1\n";

using Hash = std::array<uint8_t, 32>;

struct Weights {
  Hash hash;
  std::string name;
};

// The contents of a signature file.
struct Statement {
  Hash plan{};
  std::optional<Weights> weights;
  PublicKey key{};
  std::array<uint8_t, 64> signature{};
  size_t signed_bytes = 0;  // the first bytes of the text, which the signature covers
};

Hash HashOf(Span<const uint8_t> bytes) {
  Hash hash;
  crypto_generichash(hash.data(), hash.size(), bytes.data(), bytes.size(), nullptr, 0);
  return hash;
}

Result<Hash> HashOfFile(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(const InputFile file, OpenInputFile(path));
  crypto_generichash_state state;
  Hash hash;
  crypto_generichash_init(&state, nullptr, 0, hash.size());
  std::vector<uint8_t> block(size_t{1} << 20);
  for (;;) {
    const ssize_t count = read(file.descriptor.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::Error(Code::kIo, "%s: %s", path.c_str(), std::strerror(errno));
    if (count == 0) break;
    crypto_generichash_update(&state, block.data(), static_cast<size_t>(count));
  }
  crypto_generichash_final(&state, hash.data(), hash.size());
  return hash;
}

std::string Beside(const std::string& plan, const std::string& name) {
  return std::filesystem::path(plan).parent_path() / name;
}

// Takes the line "WORD REST" off `text`. Returns false if it begins with another word.
bool TakeLine(std::string_view* text, std::string_view word, std::string_view* rest) {
  const size_t end = text->find('\n');
  if (end == text->npos || text->substr(0, word.size()) != word || end <= word.size() ||
      (*text)[word.size()] != ' ')
    return false;
  *rest = text->substr(word.size() + 1, end - word.size() - 1);
  text->remove_prefix(end + 1);
  return true;
}

std::optional<Statement> Parse(std::string_view text) {
  const std::string_view whole = text, first = kFirstLine;
  Statement said;
  std::string_view rest;
  if (text.substr(0, first.size()) != first) return std::nullopt;
  text.remove_prefix(first.size());
  if (!TakeLine(&text, "plan", &rest) || !FromHex(rest, {said.plan.data(), said.plan.size()}))
    return std::nullopt;
  if (TakeLine(&text, "weights", &rest)) {
    Weights& weights = said.weights.emplace();
    if (rest.size() < 66 || rest[64] != ' ' ||
        !FromHex(rest.substr(0, 64), {weights.hash.data(), weights.hash.size()}))
      return std::nullopt;
    weights.name = rest.substr(65);
  }
  if (!TakeLine(&text, "key", &rest) || !FromHex(rest, {said.key.data(), said.key.size()}))
    return std::nullopt;
  said.signed_bytes = whole.size() - text.size();
  if (!TakeLine(&text, "signature", &rest) ||
      !FromHex(rest, {said.signature.data(), said.signature.size()}) || !text.empty())
    return std::nullopt;
  return said;
}

// The signature's statement, if one of `keys` made the signature.
Result<Statement> Trusted(std::string_view text, Span<const PublicKey> keys) {
  RONDO_RETURN_IF_ERROR(StartSodium());
  const std::optional<Statement> said = Parse(text);
  if (!said) return Status::Error(Code::kCorrupt, "this is not a signature as `rondo sign` writes it");
  const std::string key = Hex({said->key.data(), said->key.size()});
  if (std::find(keys.begin(), keys.end(), said->key) == keys.end())
    return Status::Error(Code::kFailedPrecondition,
                         "it is signed with key %s, which is none of the %zu that are trusted", key.c_str(),
                         keys.size());
  if (crypto_sign_verify_detached(said->signature.data(), reinterpret_cast<const uint8_t*>(text.data()),
                                  said->signed_bytes, said->key.data()) != 0)
    return Status::Error(Code::kCorrupt, "the signature is not one by key %s: it was changed, or made up",
                         key.c_str());
  return *said;
}

Status Same(const Hash& is, const Hash& said, const std::string& path) {
  if (is == said) return Status::Ok();
  return Status::Error(
      Code::kCorrupt, "%s: its contents are not those that were signed (BLAKE2b %s, signed was %s)",
      path.c_str(), Hex({is.data(), is.size()}).c_str(), Hex({said.data(), said.size()}).c_str());
}

}  // namespace

std::string SignatureOf(const std::string& plan) { return plan + ".sig"; }

Status Sign(const std::string& plan, const std::string& weights_file, const std::string& secret_key) {
  RONDO_ASSIGN_OR_RETURN(const SecretKey key, ReadSecretKey(secret_key));
  RONDO_ASSIGN_OR_RETURN(const Hash hash, HashOfFile(plan));
  std::string text = kFirstLine;
  text += "plan " + Hex({hash.data(), hash.size()}) + "\n";
  if (!weights_file.empty()) {
    if (weights_file.find('\n') != weights_file.npos)
      return Status::Error(Code::kInvalidArgument, "%s: the name of its weights file has a line break",
                           plan.c_str());
    RONDO_ASSIGN_OR_RETURN(const Hash weights, HashOfFile(Beside(plan, weights_file)));
    text += "weights " + Hex({weights.data(), weights.size()}) + " " + weights_file + "\n";
  }
  text += "key " + Hex({key.bytes.data() + 32, 32}) + "\n";
  std::array<uint8_t, 64> signature;
  crypto_sign_detached(signature.data(), nullptr, reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                       key.bytes.data());
  text += "signature " + Hex({signature.data(), signature.size()}) + "\n";
  return ReplaceFile(SignatureOf(plan), {"a signature", kFirstLine}, text.data(), text.size());
}

Status CheckFile(const std::string& plan, Span<const PublicKey> keys) {
  const std::string path = SignatureOf(plan);
  Result<std::vector<uint8_t>> file = ReadInputFile(path, uint64_t{1} << 16);
  if (!file.ok() && file.status().code() == Code::kNotFound)
    return Status::Error(Code::kFailedPrecondition,
                         "%s: it is not signed: there is no %s (`rondo sign` makes it), and only signed "
                         "plans are trusted here",
                         plan.c_str(), path.c_str());
  if (!file.ok()) return file.status();
  const std::vector<uint8_t>& bytes = *file;
  const Result<Statement> said = Trusted({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, keys);
  if (!said.ok()) return said.status().At("%s", path.c_str());
  RONDO_ASSIGN_OR_RETURN(const Hash hash, HashOfFile(plan));
  RONDO_RETURN_IF_ERROR(Same(hash, said->plan, plan));
  if (!said->weights) return Status::Ok();
  const std::string weights = Beside(plan, said->weights->name);
  RONDO_ASSIGN_OR_RETURN(const Hash weights_hash, HashOfFile(weights));
  return Same(weights_hash, said->weights->hash, weights);
}

Status CheckBytes(Span<const uint8_t> plan, std::string_view signature, Span<const PublicKey> keys) {
  RONDO_ASSIGN_OR_RETURN(const Statement said, Trusted(signature, keys));
  if (said.weights)
    return Status::Error(Code::kFailedPrecondition,
                         "the plan's weights are in a file, \"%s\": it cannot be checked from memory",
                         said.weights->name.c_str());
  return Same(HashOf(plan), said.plan, "the plan");
}

}  // namespace rondo::trust
