// Counts every call by which the process can allocate or free memory: malloc's family, operator new (which
// calls malloc), and mmap, munmap and mremap (glibc uses brk only inside malloc). Linking
// allocation_counter.cc replaces these functions in the whole program, so it cannot be combined with
// sanitizers.
#pragma once

#include <cstdint>

namespace rondo {

// Calls of all threads since the last ResetAllocationCount.
uint64_t AllocationCount();
void ResetAllocationCount();

// Calls `observer` at each counted call of any thread, with the return address of that call; null: none.
// Allocations by the observer are counted, but not observed.
void ObserveAllocations(void (*observer)(const void* caller));

}  // namespace rondo
