// What the blocks of a cluster that share a row keep on chip.
#pragma once

#include <cstdint>

namespace rondo::cuda {

inline constexpr int64_t kTeamBlocks = 8;  // blocks of a cluster that every GPU with clusters supports
// Of one thread, for what a row keeps; half for two blocks together.
inline constexpr int64_t kTeamRegisters = 128;

}  // namespace rondo::cuda
