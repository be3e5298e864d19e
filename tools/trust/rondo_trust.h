/* librondo_trust: whether a plan is signed with a key that you trust (tools/docs/trust.md). C99.
 *
 * A program checks a plan before it opens it. Functions return NULL if all is well, else a sentence that says
 * what is wrong, to be freed by rondo_trust_free. Any thread may call them. */
#ifndef RONDO_TRUST_H_
#define RONDO_TRUST_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RONDO_TRUST_API __attribute__((visibility("default")))

/* Public keys; immutable. */
typedef struct rondo_trust_keys rondo_trust_keys;

/* All public keys of Ed25519 in a PEM file. `*keys` is the caller's, to be destroyed. */
RONDO_TRUST_API char* rondo_trust_read_keys(const char* path, rondo_trust_keys** keys);
RONDO_TRUST_API void rondo_trust_destroy_keys(rondo_trust_keys* keys);

/* The file `plan`, and the weights file beside it if it has one, are what `plan`.sig says, and that is signed
 * with one of the keys. Reads them whole. What is opened later is what was checked only if nobody writes to
 * these files meanwhile. */
RONDO_TRUST_API char* rondo_trust_check_file(const rondo_trust_keys* keys, const char* plan);

/* The same of a whole plan in memory, as rondo_plan_open_bytes takes it, and the contents of its signature
 * file. */
RONDO_TRUST_API char* rondo_trust_check_bytes(const rondo_trust_keys* keys, const void* plan,
                                              size_t plan_bytes, const void* signature,
                                              size_t signature_bytes);

/* Of a sentence; NULL is fine. */
RONDO_TRUST_API void rondo_trust_free(char* sentence);

#ifdef __cplusplus
}
#endif

#endif /* RONDO_TRUST_H_ */
