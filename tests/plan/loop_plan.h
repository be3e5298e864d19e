// A small plan made by hand with a loop.
#pragma once

#include <cstdint>

#include "tests/plan/sample_plan.h"

namespace rondo {

// Program "main" of one device, over rows of 4 floats; steps 1 to 4 are a loop of kLoopRounds rounds r:
//   0 copy  START -> H             3 copy  E -> H
//   1 sum   X[r] + H -> G          4 copy  E -> Y[last - r]
//   2 twice G -> E, in place       5 copy  H -> LAST
// so that row last - r of Y, and at the end LAST, is what H becomes: 2 * (X[r] + H).
inline constexpr uint32_t kLoopRounds = 5;
enum LoopBuffer : uint32_t { kLoopX, kLoopStart, kLoopY, kLoopLast, kLoopH, kLoopG, kLoopE };
Sample MakeLoopSample();

inline Loop& LoopIn(Sample& s) { return Edit(s.data.programs[0].loops, 0); }
inline Binding& BindingOf(Sample& s, uint32_t step, size_t slot) {
  return Edit(StepOf(s, step).bindings, slot);
}

}  // namespace rondo
