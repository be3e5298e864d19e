// ArenaProblem: the values of a program as a packing problem, with the pairs that must not share memory.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/memory/lifetimes.h"
#include "compiler/memory/packing.h"
#include "compiler/memory/stream_order.h"

namespace rondo {

inline constexpr int64_t kArenaAlignment = 64;  // of every offset in the arena

// One buffer for each value of the program; empty unless the value is the root of values in the arena.
// `root_of`, by value: the value whose buffer it is part of, since they take over one another.
//
// Lifetimes are in steps. On one stream they are exact. On several streams, values that share no step may
// still live at the same time, and the problem is the first of these that is exact (stream_lives.h):
//   lifetimes as they are;
//   each lifetime extended to the last step that may begin during it, on any stream;
//   explicit conflicts.
// With more than `most_pairs` pairs to check it is the second, which may keep values apart unnecessarily
// (`widened`): streams without waits between them then share nothing.
struct ArenaProblem {
  PackingProblem packing;
  bool widened = false;
  // A lower bound for any packing: the most bytes in use at one step; with explicit conflicts, if they are
  // not too many, the most at one time, whatever the timing (antichain.h); with widened lifetimes, that of
  // the original ones.
  int64_t least_bytes = 0;
};
ArenaProblem MakeArenaProblem(const LoweredProgram& program, const StreamOrder& order,
                              const std::vector<Life>& lives, const std::vector<size_t>& root_of,
                              int64_t most_pairs = 3'000'000);

}  // namespace rondo
