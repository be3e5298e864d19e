// Kernels that the estimates put far below what the GPU could do: most often an operator, or a shape of one,
// for which Rondo has no good kernel.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace rondo {

// Times in microseconds, of one launch on the GPU that the plan's estimates are for.
struct SlowKernel {
  std::string kernel, source;  // its name, and the source nodes of its first step
  double estimated = 0;
  bool measured = false;  // `estimated` is what a profile measured
  double least = 0;       // its bytes and operations at the rates of that GPU
  // One sentence.
  std::string Text() const;
};

// Those of GPU plans that take more than 50 times the time of their bytes and operations, so that they use
// less than 2 % of the GPU, and at least 20 us: shorter ones mostly wait to begin. Slowest first. `plan` must
// pass VerifyPlan.
std::vector<SlowKernel> SlowKernelsOf(const PlanData& plan);

}  // namespace rondo
