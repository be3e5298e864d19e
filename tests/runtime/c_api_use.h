/* Uses rondo.h as a C program does. Compiled as C11 and called by c_api_test.cc. */
#ifndef RONDO_TESTS_RUNTIME_C_API_USE_H_
#define RONDO_TESTS_RUNTIME_C_API_USE_H_

#include <stddef.h>

#include "runtime/rondo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the tiny plan from `bytes`, queries it, and runs it through `driver`, which it takes over. Returns
 * NULL or a sentence about what went wrong. */
const char* UsePlanFromC(const void* bytes, size_t size, rondo_driver* driver);
/* Makes every mistake that the interface can detect. Returns NULL or the mistake that it did not detect. */
const char* MisuseFromC(const void* bytes, size_t size, rondo_driver* driver, rondo_driver* broken);

#ifdef __cplusplus
}
#endif

#endif /* RONDO_TESTS_RUNTIME_C_API_USE_H_ */
