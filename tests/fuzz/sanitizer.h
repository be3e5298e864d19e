// RONDO_FUZZ_ASAN is defined where the address sanitizer is built in.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define RONDO_FUZZ_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RONDO_FUZZ_ASAN 1
#endif
#endif
