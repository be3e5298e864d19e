#include "tools/trust/rondo_trust.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "tools/trust/signature.h"

struct rondo_trust_keys {
  std::vector<rondo::trust::PublicKey> keys;
};

namespace rondo::trust {
namespace {

char* Sentence(const Status& status) { return status.ok() ? nullptr : strdup(status.message()); }

Span<const PublicKey> In(const rondo_trust_keys* keys) { return {keys->keys.data(), keys->keys.size()}; }

}  // namespace
}  // namespace rondo::trust

using namespace rondo::trust;

char* rondo_trust_read_keys(const char* path, rondo_trust_keys** keys) {
  auto read = ReadPublicKeys(path);
  *keys = read.ok() ? new rondo_trust_keys{read.Take()} : nullptr;
  return Sentence(read.status());
}

void rondo_trust_destroy_keys(rondo_trust_keys* keys) { delete keys; }

char* rondo_trust_check_file(const rondo_trust_keys* keys, const char* plan) {
  return Sentence(CheckFile(plan, In(keys)));
}

char* rondo_trust_check_bytes(const rondo_trust_keys* keys, const void* plan, size_t plan_bytes,
                              const void* signature, size_t signature_bytes) {
  return Sentence(CheckBytes({static_cast<const uint8_t*>(plan), plan_bytes},
                             {static_cast<const char*>(signature), signature_bytes}, In(keys)));
}

void rondo_trust_free(char* sentence) { std::free(sentence); }
