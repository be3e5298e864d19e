// AllocationSources: which allocations of the process are Rondo's own, and which are made by libraries that a
// driver has opened.
#pragma once

#include <cstdint>

namespace rondo::tools {

// Allocation calls, counted by the first caller that is in neither the C nor the C++ library.
struct AllocationSources {
  uint64_t own = 0;     // the program itself with Rondo in it, mimalloc, and unknown callers
  uint64_t others = 0;  // any other library
};

// Counts the calls of all threads between the two. Only for programs that link runtime/testing's allocation
// counter. Calls do not nest.
void BeginAllocationSources();
AllocationSources EndAllocationSources();

}  // namespace rondo::tools
