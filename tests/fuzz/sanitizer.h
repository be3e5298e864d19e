// RONDO_FUZZ_ASAN is defined where the address sanitizer is built in.
#ifndef RONDO_TESTS_FUZZ_SANITIZER_H_
#define RONDO_TESTS_FUZZ_SANITIZER_H_

#if defined(__SANITIZE_ADDRESS__)
#define RONDO_FUZZ_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RONDO_FUZZ_ASAN 1
#endif
#endif

#endif  // RONDO_TESTS_FUZZ_SANITIZER_H_
