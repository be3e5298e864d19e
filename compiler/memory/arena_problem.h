// ArenaProblem: the values of a program as a packing problem: which of them must not share memory.
#pragma once

#include <cstddef>
#include <vector>

#include "compiler/memory/lifetimes.h"
#include "compiler/memory/packing.h"
#include "compiler/memory/stream_order.h"

namespace rondo {

inline constexpr int64_t kArenaAlignment = 64;  // of every offset in the arena

// One buffer a value of the program, empty unless it is the root of values in the arena. `root_of`, by value:
// the one whose buffer it is a part of, because they take over one another.
//
// Lifetimes are in steps. On one stream they say it all. On several, values that live at no step together may
// still do so in time, and the problem is the first of these that says exactly which do (stream_lives.h):
//   lifetimes as they are;
//   each lifetime until the last step that may begin during it, on whatever stream;
//   conflicts, named one by one.
// With more than `most_pairs` pairs to look at it is the second, which may keep values apart that need not be
// (`widened`): streams without waits between them then share nothing.
struct ArenaProblem {
  PackingProblem packing;
  bool widened = false;
  // No packing can be lower: the most bytes in use at one step; where conflicts are named, and they are not
  // very many, at one time, whatever the timing (antichain.h); of lifetimes as they are, where they are
  // widened.
  int64_t least_bytes = 0;
};
ArenaProblem MakeArenaProblem(const LoweredProgram& program, const StreamOrder& order,
                              const std::vector<Life>& lives, const std::vector<size_t>& root_of,
                              int64_t most_pairs = 3'000'000);

}  // namespace rondo
