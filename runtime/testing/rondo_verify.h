/* Tests of librondo_verify: the lifecycle verifier, and expectations about a plan's memory in the model's own
 * names. In C++ use the macros of testing.h and the matchers of matchers.h. Any thread. */
#ifndef RONDO_RUNTIME_TESTING_RONDO_VERIFY_H_
#define RONDO_RUNTIME_TESTING_RONDO_VERIFY_H_

#include <stdint.h>

#include "runtime/rondo.h"

#if defined(__GNUC__)
#define RONDO_VERIFY_API __attribute__((visibility("default")))
#else
#define RONDO_VERIFY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the lifecycle verifier for `plan` on `driver`, which is taken over and destroyed. NULL if it finds
 * nothing, otherwise a text with one finding on each line, to be freed by rondo_testing_free. librondo of the
 * same release must have opened the plan. */
RONDO_VERIFY_API char* rondo_testing_verify(const rondo_plan* plan, rondo_driver* driver);
/* Why an expectation does not hold; NULL if it does, otherwise a text as above. `kind` is a
 * rondo_testing_kind; names that it does not need may be NULL; `program`: NULL or "" for every program that
 * has the names. */
RONDO_VERIFY_API char* rondo_testing_mismatch(const rondo_plan* plan, uint32_t kind, const char* value,
                                              const char* other, const char* program, uint64_t bytes);
RONDO_VERIFY_API void rondo_testing_free(char* text);

typedef enum rondo_testing_kind {
  RONDO_REUSES_MEMORY = 0,
  RONDO_SHARES_MEMORY = 1,
  RONDO_DIES_AFTER = 2,
  RONDO_UPDATED_IN_PLACE = 3,
  RONDO_COPIES_AT_MOST = 4
} rondo_testing_kind;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* RONDO_RUNTIME_TESTING_RONDO_VERIFY_H_ */
