// PlanMemory: places every value in the arena.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/memory/arena_problem.h"
#include "compiler/memory/lifetimes.h"

namespace rondo {

// Entries are one a value of the program.
struct MemoryPlan {
  std::vector<Life> lives;
  std::vector<int> takes_over;   // the value whose memory this one takes over in place, or -1
  std::vector<int64_t> offsets;  // in the arena; 0 for constants and state
  int64_t arena_bytes = 0;       // end of the highest value, rounded up to kArenaAlignment
  int64_t lower_bound = 0;       // largest sum of live bytes (rounded up alike) at any step
  int in_place = 0;              // values that take over another's memory
  std::string text;              // one sentence for reports
};

// Plans the ops of `program` in list order. Inputs that nothing reads still get memory of their own at step
// 0, since a caller may write them. Takes a few seconds for 3000 values whose lower bound cannot be met,
// otherwise milliseconds.
MemoryPlan PlanMemory(const LoweredProgram& program);

}  // namespace rondo
