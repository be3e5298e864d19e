// Which guards can be left out: the rule that the compiler, the checker and the host driver share.
#pragma once

#include <cstdint>

#include "core/kernel.h"

namespace rondo {

// Whether the guard's coordinate lies within its extent at every point of the loops, each of which has at
// least one iteration. Exact for any numbers.
inline bool AlwaysHolds(const Guard& guard, Span<const int64_t> loops) {
  __extension__ using Wide = __int128;
  Wide low = guard.offset, high = guard.offset;
  for (size_t l = 0; l < loops.size(); ++l) {
    const Wide reach = static_cast<Wide>(guard.strides[l]) * (loops[l] - 1);
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high < guard.extent;
}

}  // namespace rondo
