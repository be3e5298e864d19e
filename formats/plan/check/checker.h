// CheckPlan: the independent proof of a plan's memory. Shares no code with the planner.
//
// Derives every lifetime from the kernels' contracts (what each step reads and writes). "Before" means
// reachability: steps of one stream of one device are in list order; an event's recorder comes before the
// steps that wait for it; a step comes after the steps in its `after`; a collective's start comes before its
// wait, and its buffers are in use between the two. Inputs are written before all steps, outputs are read
// after all steps.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// The steps of a buffer's program, in list order and both included, between which its contents matter. A
// buffer that a loop uses lives for the whole loop, unless no step outside the loop uses it and its first
// step in the loop only writes: then each round has contents of its own. Never used: {1, 0}. Inputs begin at
// 0, outputs end at the last step; a collective in flight uses its buffers from its start to its wait. Shared
// buffers (constants, state): {0, 0}.
struct Lifetime {
  uint32_t first = 1;
  uint32_t last = 0;
};

struct ProgramMemory {
  uint64_t arena_lower_bound = 0;  // largest sum of live bytes at any step, of the fullest device
  uint32_t fullest_step = 0;       // the step where it is reached
  uint64_t arena_bytes = 0;        // end of the last buffer in the arena, of the fullest device
};

struct CheckReport {
  Span<const Lifetime> lifetimes;      // one for each buffer
  Span<const ProgramMemory> programs;  // one for each program
};

// OK, or the first broken rule as one sentence (kCorrupt), with the source node of the step at fault. `plan`
// must have passed VerifyPlan. Proves of every program:
// - No two buffers overlap in memory unless one is dead before the other begins, or one takes over the other
//   in place. A takeover is named in `aliases`, happens in the other's last step, and writes each element
//   where that step has read it: same part; read by a tape, not by a role; same dtype size, strides, guards
//   and indirects; loaded no later than stored. A custom op's output that shares its input's memory takes it
//   over whole: read before the op, written by it. A collective may also work in place, at the offset that
//   its op gives its rank.
// - Buffer::first_step and last_step equal the lifetime derived here.
// - Constants and inputs are never written. An input may be taken over in place; a kUpdatedInput is also an
//   output, and written as one.
// - Every read sees writes: everything that may be read of outputs and temporaries is covered by earlier
//   writes (the buffer's own, or those of buffers it took over). This is exact: through guards, for every
//   point that exists; through an index from data, for every value that the index may have. Writes through
//   such an index cover nothing. A sequential part's own writes do not cover its reads, which may touch the
//   same bytes at other points. Workspace is exempt. A plan with too many pieces to prove is refused. For a
//   loop, three cases stand for every round: all rounds at once, covered by writes outside the loop;
//   otherwise the first round; and any later round, covered by writes that move as the read does, in its
//   round and the one before (for a buffer with contents of its own in each round: in its round only).
// - Accesses of one buffer that overlap are ordered if one of them writes. Within a step, an operand that is
//   written touches nothing that another operand touches, unless both access the same elements at the same
//   points.
// - Constants share memory only where they share bytes.
Status CheckPlan(const PlanData& plan, const HostAllocator& allocator = DefaultHostAllocator());

// The same, and returns the derived lifetimes and peaks, which live in `arena`. On error `report` is not set.
Status CheckPlan(const PlanData& plan, const HostAllocator& allocator, Arena& arena, CheckReport* report);

}  // namespace rondo
