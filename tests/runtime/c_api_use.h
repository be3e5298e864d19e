/* What a C program does with rondo.h, compiled as C11 and called by c_api_test.cc. */
#ifndef RONDO_TESTS_RUNTIME_C_API_USE_H_
#define RONDO_TESTS_RUNTIME_C_API_USE_H_

#include <stddef.h>

#include "runtime/rondo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the tiny plan from `bytes`, asks about it, runs it through `driver` (taken over). NULL, or what went
 * wrong in words. */
const char* UsePlanFromC(const void* bytes, size_t size, rondo_driver* driver);
/* Makes every mistake that the interface can detect. NULL, or the one that it did not. */
const char* MisuseFromC(const void* bytes, size_t size, rondo_driver* driver, rondo_driver* broken);

#ifdef __cplusplus
}
#endif

#endif /* RONDO_TESTS_RUNTIME_C_API_USE_H_ */
