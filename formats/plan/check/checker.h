// CheckPlan: the independent proof of a plan's memory. Shares nothing with the planner.
//
// Derives every lifetime from the contracts of the kernels (what each step reads and writes), with
// "before" decided by reachability: steps of one stream of one device are in the order of the list; an
// event's recorder comes before those who wait for it; a step comes after the steps in its `after`; a
// collective's start comes before its wait, and between the two its buffers are in use. Inputs are
// written before all steps, outputs are read after all.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// Steps of a buffer's program between which its contents matter, both included, in the order of the
// list: all of a loop that has to do with it, unless only this loop has, and its first step there only
// writes (then each round has contents of its own). Never used: {1, 0}. Inputs begin at 0, outputs end at the
// last step; a collective in flight uses its buffers from its start to its wait. Of shared buffers
// (constants, state): {0, 0}.
struct Lifetime {
  uint32_t first = 1;
  uint32_t last = 0;
};

struct ProgramMemory {
  uint64_t arena_lower_bound = 0;  // largest sum of live bytes at any step, of the fullest device
  uint32_t fullest_step = 0;       // where that is
  uint64_t arena_bytes = 0;        // end of the last buffer in the arena, of the fullest device
};

struct CheckReport {
  Span<const Lifetime> lifetimes;      // one a buffer
  Span<const ProgramMemory> programs;  // one a program
};

// OK, or the first broken rule as one sentence (kCorrupt), with the source node of the step at fault.
// `plan` must have passed VerifyPlan. Proves of every program:
// - No two buffers overlap in memory unless one is dead before the other begins, or one takes over the
//   other in place: it names it in `aliases`, the taking-over step is the other's last, and that
//   step writes each element where it has read it (same part; the read by a tape, not by a role; the
//   same dtype size, strides, guards and indirects; loaded no later than stored).
//   A custom op's output that is its input's memory takes it over whole: read before the op, written by it.
//   A collective may also work in place, at the place its op gives its rank.
// - Buffer::first_step and last_step are the lifetime derived here.
// - Constants and inputs are never written (an input may be taken over in place; a kUpdatedInput is an
// output,
//   too, and written as one).
// - Every read sees writes: what may be read of outputs and temporaries is covered by writes that come before
//   (its own, or those of the buffers it took over). Exact: through guards, for every point that exists;
//   through an index from data, for all that the index may be. What is written through such an index covers
//   nothing. Nor does what a sequential part itself writes cover its own reads, which may touch the same
//   bytes at other points; workspace is not looked at. Pieces too many to prove it are refused. Of a loop
//   three cases are proven instead of every round: all rounds at once by what is written outside of it; else
//   the first round, and any later one by the writes that move as the read does, of its round and of the one
//   before (a buffer of which each round has its own: of its round only).
// - Accesses of one buffer that overlap are ordered if one of them writes; inside a step, operands that
//   write touch what no other operand touches, unless both access the same elements at the same points.
// - Constants share memory only where they share bytes.
Status CheckPlan(const PlanData& plan, const HostAllocator& allocator = DefaultHostAllocator());

// The same, and the derived lifetimes and peaks, which live in `arena`. On error `report` is not set.
Status CheckPlan(const PlanData& plan, const HostAllocator& allocator, Arena& arena, CheckReport* report);

}  // namespace rondo
