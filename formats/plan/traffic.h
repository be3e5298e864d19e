// The memory that a step touches, and the operations it computes, from its kernel's contracts alone.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo {

struct Traffic {
  uint64_t read = 0, written = 0;  // bytes
  uint64_t operations = 0;         // multiplications and additions of matmuls, convolutions and attention
};

// Distinct bytes that `step` reads and writes: elements that several iteration points, operands or parts
// touch count once. Exact for nests of dense loops. An upper bound where an index comes from data (each value
// of the index counts as another place) and where strides interleave. Never more than the bound memory.
Traffic StepTraffic(const PlanData& plan, const Step& step);
// The same of a launch of `kernel` with parameters bound to memory of `bound` bytes each.
Traffic KernelTraffic(const Kernel& kernel, Span<const uint64_t> bound);
// The same of a call of `op`.
Traffic CallTraffic(const CustomOp& op);

// What step `step` of `program` reads and writes in a run; in a loop, the sum over all rounds.
inline Traffic RunTraffic(const PlanData& plan, const Program& program, uint32_t step) {
  Traffic traffic = StepTraffic(plan, program.steps[step]);
  for (uint64_t* sum : {&traffic.read, &traffic.written, &traffic.operations})
    *sum *= RoundsOf(program, step);
  return traffic;
}

// The distinct elements that `operand` touches: what StepTraffic sums.
uint64_t DistinctElements(const Part& part, const Operand& operand);

}  // namespace rondo
