/* What tests ask of librondo_verify: the lifecycle verifier, and expectations of a plan's memory by the
 * model's own names. In C++ through the macros of testing.h and the matchers of matchers.h. Any thread. */
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

/* What the lifecycle verifier finds in `plan` on `driver`, which is taken over and destroyed: NULL if
 * nothing, else a text of one finding a line, to be given to rondo_testing_free. The plan must be one that
 * librondo of the same release has opened. */
RONDO_VERIFY_API char* rondo_testing_verify(const rondo_plan* plan, rondo_driver* driver);
/* Why an expectation does not hold, likewise. `kind` is a rondo_testing_kind; names that it does not need may
 * be NULL; `program`: NULL or "" for each that has the names. */
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
