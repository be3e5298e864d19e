// AllocationSources: which allocations of the process are Rondo's own, and which are made by libraries that a
// driver has opened.
#pragma once

#include <cstdint>

namespace rondo::tools {

// Counted calls by the first caller that is neither in the C nor in the C++ library.
struct AllocationSources {
  uint64_t own = 0;     // the program itself, where Rondo is linked in, mimalloc, and what cannot be told
  uint64_t others = 0;  // any other library
};

// Between the two, all threads' calls are looked at. Programs that link runtime/testing's counter only; not
// to be nested.
void BeginAllocationSources();
AllocationSources EndAllocationSources();

}  // namespace rondo::tools
