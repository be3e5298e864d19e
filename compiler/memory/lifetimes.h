// Lifetimes: the steps between which the contents of each value of an ordered program matter.
//
// Steps are the program's ops in list order. On several streams, lifetimes in steps do not decide which
// values may share memory: use StreamLives (stream_lives.h). Pure functions of the program.
#pragma once

#include <vector>

#include "compiler/fusion/lowered.h"

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

}  // namespace rondo
