// Lifetimes: between which steps the contents of each value of an ordered program matter, and which value
// may take over the memory of another.
//
// Steps are the program's ops in the order in which they stand. On several streams, lifetimes in steps say
// less than who may share memory: for that there is StreamLives (stream_lives.h). Pure functions of the
// program.
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
  bool local = false;  // to each round of a loop
  bool used() const { return first <= last; }
};

// Steps [first, last] of each loop.
std::vector<Life> LoopSteps(const LoweredProgram& program);

// One a value. What a loop has to do with lives for all of it, unless only this loop touches it and its first
// step there only writes it: then every round has its own. Inputs begin at step 0 and outputs end at the last
// step; constants and state, which outlive the program, have {0, 0}.
std::vector<Life> Lifetimes(const LoweredProgram& program);

// True for kinds that have a place in the arena.
constexpr bool InArena(BufferKind kind) {
  return kind != BufferKind::kConstant && kind != BufferKind::kState;
}

// Whether what `pair` of `op` writes may lie where what it reads lies, as far as the op alone can tell: both
// are temporaries of one size, bound whole and to no other parameter of it. What is read may be a donated
// input, and then what is written an output.
bool MayTakeOver(const LoweredProgram& program, const LoweredOp& op, const InPlacePair& pair);

// One a value: the value whose memory it takes over in place, or -1. An output takes the memory of the
// donated input that fusion has found for it (LoweredValue::takes) if all reads of that are over. A temporary
// may take over a temporary that an op reads for the last time, where MayTakeOver says that it may, and first
// touches what it writes. Whatever the timing, all other uses of the one are over before the op, and those of
// the other begin after it (of a collective: its wait). Nothing is taken over twice.
std::vector<int> Donations(const LoweredProgram& program, const StreamOrder& order,
                           const std::vector<Life>& lives);

}  // namespace rondo
