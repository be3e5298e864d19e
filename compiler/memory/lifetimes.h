// Lifetimes: the steps between which the contents of each value of an ordered program matter, and which
// values may take over the memory of another.
//
// Steps are the program's ops in list order. On several streams, lifetimes in steps do not decide which
// values may share memory: use StreamLives (stream_lives.h). Pure functions of the program.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "compiler/memory/stream_order.h"

namespace rondo {

// Both steps included; first > last: never touched.
struct Life {
  int first = 1;
  int last = 0;
  bool local = false;  // each round of a loop has contents of its own
  bool used() const { return first <= last; }
};

// Steps [first, last] of each loop.
std::vector<Life> LoopSteps(const LoweredProgram& program);

// One for each value. A value that a loop uses lives for the whole loop, unless only this loop touches it and
// its first step there only writes it: then every round has contents of its own. Inputs begin at step 0 and
// outputs end at the last step. Constants and state outlive the program: {0, 0}.
std::vector<Life> Lifetimes(const LoweredProgram& program);

// True for kinds that are placed in the arena.
constexpr bool InArena(BufferKind kind) {
  return kind != BufferKind::kConstant && kind != BufferKind::kState;
}

// Whether the write of `pair` may lie in the memory of its read, as far as the op alone decides: both are
// temporaries of one size, bound as a whole and to no other parameter. The read may also be a donated input
// if the write is an output.
bool MayTakeOver(const LoweredProgram& program, const LoweredOp& op, const InPlacePair& pair);

// For each value: the value whose memory it takes over in place, or -1. An output takes the memory of the
// donated input that fusion found for it (LoweredValue::takes) if all reads of that are over. A temporary may
// take over a temporary if an op reads the old one for the last time, is the first to touch the new one, and
// MayTakeOver agrees. On any timing, all other uses of the old one are over before the op, and those of the
// new one begin after it (for a collective: after its wait). Nothing is taken over twice.
std::vector<int> Donations(const LoweredProgram& program, const StreamOrder& order,
                           const std::vector<Life>& lives);

}  // namespace rondo
