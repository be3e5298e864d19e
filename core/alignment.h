// The alignment of a kernel's parameters. The compiler generates code for it and drivers choose algorithms by
// it, so both share these rules. Pure functions.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo {

inline constexpr uint64_t kMostAlignment = 256;  // bytes; nothing asks for more

// The largest power of two, up to kMostAlignment, that divides `place`.
constexpr uint64_t AlignmentOf(uint64_t place) {
  const uint64_t lowest = place & (~place + 1);
  return lowest == 0 || lowest > kMostAlignment ? kMostAlignment : lowest;
}

// Alignment of the address that a step passes for a buffer bound this way, in every round of its loop.
constexpr uint64_t AlignmentOf(const Buffer& buffer, const Binding& binding) {
  const uint64_t own = AlignmentOf(buffer.alignment);
  const uint64_t within = AlignmentOf(binding.offset | static_cast<uint64_t>(binding.stride));
  return own < within ? own : within;
}

}  // namespace rondo
