// A small plan made by hand that calls custom ops in every way, and the ops that it calls.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/rondo_op.h"
#include "tests/plan/sample_plan.h"

namespace rondo {

// Ops of the domain "test":
//   Scale       y = factor * x (+ bias, an optional input); attribute factor, others are taken as they come
//   Accumulate  total, x -> total + x, in the memory of total
//   Tap         x -> x, passed through; no graph may contain it. x[0] of 1000 is data it cannot work on,
//               of 2000 a failure for good
// What they did is counted.
struct OpCounts {
  std::atomic<int> created{0}, destroyed{0}, scaled{0}, taps{0};
};
OpCounts& CountsOfTestOps();
extern "C" int32_t RegisterTestOps(const rondo_op_registrar* registrar);

// Program "main" of one device, over vectors of 4 floats; TOTAL is state:
//   0 Scale       X -> A (factor 2)                3 Accumulate  A, X -> B in the memory of A
//   1 Accumulate  TOTAL, A -> TOTAL                4 copy        B -> Y
//   2 Tap         A -> A, a partition of its own
// so that TOTAL += 2 X and Y = 3 X.
enum CallBuffer : uint32_t { kCallX, kCallY, kCallTotal, kCallA, kCallB };
Sample MakeCallSample();

// Makes every custom op of `plan` one that no graph may contain, each in a partition of its own, as in a plan
// compiled for a GPU. New lists lie in `arena`.
void CallOutsideGraphs(PlanData* plan, Arena& arena);

inline CustomOp& CustomOf(Sample& s, uint32_t i) { return Edit(s.data.custom_ops, i); }
inline CustomArgument& ArgumentOf(Sample& s, uint32_t op, uint32_t i) {
  return Edit(s.data.custom_ops[op].arguments, i);
}

}  // namespace rondo
