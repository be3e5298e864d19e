/* librondo_trust: checks that a plan is signed with a key that you trust (tools/docs/trust.md). C99.
 *
 * A program checks a plan before it opens it. Functions return NULL on success, else a sentence that says
 * what is wrong; the caller frees it with rondo_trust_free. Any thread may call them. */
#ifndef RONDO_TRUST_H_
#define RONDO_TRUST_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RONDO_TRUST_API __attribute__((visibility("default")))

/* A set of public keys; immutable. */
typedef struct rondo_trust_keys rondo_trust_keys;

/* Reads all Ed25519 public keys of a PEM file. The caller destroys `*keys`. */
RONDO_TRUST_API char* rondo_trust_read_keys(const char* path, rondo_trust_keys** keys);
RONDO_TRUST_API void rondo_trust_destroy_keys(rondo_trust_keys* keys);

/* Checks that `plan`.sig is signed with one of the keys, and that the file `plan`, and its weights file if it
 * has one, have the contents that `plan`.sig states. Reads both whole. A plan that is opened later is the one
 * that was checked only if nobody writes to these files meanwhile. */
RONDO_TRUST_API char* rondo_trust_check_file(const rondo_trust_keys* keys, const char* plan);

/* The same for a whole plan in memory, as rondo_plan_open_bytes takes it, and the contents of its signature
 * file. */
RONDO_TRUST_API char* rondo_trust_check_bytes(const rondo_trust_keys* keys, const void* plan,
                                              size_t plan_bytes, const void* signature,
                                              size_t signature_bytes);

/* Frees a sentence; NULL is allowed. */
RONDO_TRUST_API void rondo_trust_free(char* sentence);

#ifdef __cplusplus
}
#endif

#endif /* RONDO_TRUST_H_ */
