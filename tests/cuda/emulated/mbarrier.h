// A barrier in shared memory that counts arrivals and bytes, like PTX's mbarrier, in the same eight bytes.
#pragma once

#include <cstdint>

namespace rondo::emulated {

struct Mbarrier {
  uint16_t count;         // arrivals of one phase
  uint16_t pending : 15;  // arrivals that this phase still waits for
  uint16_t phase : 1;     // the parity of the phase
  int32_t bytes;  // expected bytes that have not come; negative while bytes come before they are expected
};
static_assert(sizeof(Mbarrier) == 8);

// Whether the phase of that parity, the one before the current phase, is complete.
inline bool IsComplete(const Mbarrier& barrier, bool parity) { return (barrier.phase != 0) != parity; }

// Ends the phase if all arrivals and bytes have come. Call it after each.
inline void Settle(Mbarrier* barrier) {
  if (barrier->pending != 0 || barrier->bytes != 0) return;
  barrier->pending = barrier->count;
  barrier->phase ^= 1;
}

}  // namespace rondo::emulated
