// The order of a row's elements for the skeleton kTopK: by key, equal keys by place. NaN counts as infinity,
// and -0 equals 0.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dtype.h"

namespace rondo {

// An element, widened to its tape type: smaller keys come first. u64 keeps its bits in an i64. Static,
// because code of several instruction sets includes it.
template <typename T>
static constexpr uint64_t OrderKey(T x, DType type, bool largest) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  uint64_t key;
  if constexpr (std::is_same_v<T, int64_t>) {
    key = static_cast<uint64_t>(x) ^ (type == DType::kU64 ? 0 : kSign);
  } else {
    const double wide = x != x ? __builtin_inf() : x == 0 ? 0 : static_cast<double>(x);
    const uint64_t bits = __builtin_bit_cast(uint64_t, wide);
    key = (bits & kSign) != 0 ? ~bits : bits | kSign;
  }
  return largest ? ~key : key;
}

}  // namespace rondo
