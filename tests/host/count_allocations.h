// Counts every allocation of the process: the test binary's malloc family replaces the C library's.
#pragma once

#include <cstdint>

namespace rondo::test {

// Calls of malloc, calloc, realloc, aligned_alloc, memalign, posix_memalign and mmap since the start.
uint64_t Allocations();

}  // namespace rondo::test
