// Counts every call by which the process can get or give back memory: malloc's family, operator new through
// it, and mmap, munmap and mremap (glibc uses brk for malloc only). Linking allocation_counter.cc replaces
// these functions for the whole program, so it does not go with sanitizers.
#pragma once

#include <cstdint>

namespace rondo {

// Calls of all threads since the last ResetAllocationCount.
uint64_t AllocationCount();
void ResetAllocationCount();

// Calls `observer` at each counted call of any thread, with the address that the call returns to; null: none.
// What it allocates itself is counted, but not observed.
void ObserveAllocations(void (*observer)(const void* caller));

}  // namespace rondo
