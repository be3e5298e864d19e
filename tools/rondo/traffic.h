// How much memory a step touches, from the contracts of its kernel alone.
#ifndef RONDO_TOOLS_RONDO_TRAFFIC_H_
#define RONDO_TOOLS_RONDO_TRAFFIC_H_

#include <cstdint>

#include "core/plan.h"

namespace rondo::tools {

struct Traffic {
  uint64_t read = 0, written = 0;  // bytes
  uint64_t operations = 0;  // multiplications and additions of contractions, convolutions and attention
};

// Distinct bytes that `step` reads and writes: elements that several iteration points, operands or parts
// touch count once. Exact for nests of dense loops; an upper bound where an index comes from data (each value
// of the index counts as a different place) and where strides interleave. Never more than what is bound.
Traffic StepTraffic(const PlanData& plan, const Step& step);

// What step `step` of `program` reads and writes in a run: in a loop, the sum over its rounds.
inline Traffic RunTraffic(const PlanData& plan, const Program& program, uint32_t step) {
  Traffic traffic = StepTraffic(plan, program.steps[step]);
  for (uint64_t* sum : {&traffic.read, &traffic.written, &traffic.operations})
    *sum *= RoundsOf(program, step);
  return traffic;
}

// The distinct elements that `operand` touches: what StepTraffic sums.
uint64_t DistinctElements(const Part& part, const Operand& operand);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_TRAFFIC_H_
