// A barrier in shared memory that counts arrivals and bytes, as PTX's mbarrier does, in the eight bytes that
// it has there.
#pragma once

#include <cstdint>

namespace rondo::emulated {

struct Mbarrier {
  uint16_t count;         // arrivals of a phase
  uint16_t pending : 15;  // that this phase still waits for
  uint16_t phase : 1;     // its parity
  int32_t bytes;          // expected and not there yet; below zero while they are ahead of who expects them
};
static_assert(sizeof(Mbarrier) == 8);

// Whether the phase of that parity is complete: the one before the current one.
inline bool IsComplete(const Mbarrier& barrier, bool parity) { return (barrier.phase != 0) != parity; }

// After an arrival or bytes.
inline void Settle(Mbarrier* barrier) {
  if (barrier->pending != 0 || barrier->bytes != 0) return;
  barrier->pending = barrier->count;
  barrier->phase ^= 1;
}

}  // namespace rondo::emulated
