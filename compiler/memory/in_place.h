// In place: which value may lie in the memory of another, and which does.
//
// An op may write a value over another one that it reads for the last time. Each decision is made once:
//   LoweredOp::in_place  the op reads each element before it writes it, at the same point (by fusion)
//   MayTakeOver          the two values permit it in some order: scheduling counts live bytes with these
//   TakesOver            in this order, all other uses of the old value end before: the plan has these
//
// Versions of states and pieces of concatenations are no values of their own: fusion gives them one memory
// (compiler/fusion/in_place/README.md). Pure functions of the program; formats/plan/check proves the result
// by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/memory/lifetimes.h"
#include "compiler/memory/stream_order.h"

namespace rondo {

// An op may write value `write` into the memory of `read`: both are temporaries of one size, bound as a whole
// and to no other parameter. `read` may also be a donated input, and `write` then an output.
struct TakeOver {
  int write = -1, read = -1;
  int64_t bytes = 0;
  // A collective's: in every order, all other ops that touch `read` run before its start. Then `read` ends
  // there, and its wait does not touch it.
  bool at_start = false;
};

// By op.
std::vector<std::vector<TakeOver>> MayTakeOver(const LoweredProgram& program);

// For each value: the value whose memory it takes over, or -1. An output takes the memory of the donated
// input that fusion found for it (LoweredValue::takes) if all reads of that are over. Otherwise one of
// MayTakeOver: the op is the last to touch the old value and the first to touch the new one. On any timing,
// all other uses of the old one are over before the op, and those of the new one begin after it (for a
// collective: after its wait). Nothing is taken over twice. `lives` are Lifetimes(program).
std::vector<int> TakesOver(const LoweredProgram& program, const StreamOrder& order,
                           const std::vector<Life>& lives);

}  // namespace rondo
