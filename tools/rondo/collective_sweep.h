// SweepCollectives: how long collectives take by size, alone among some of a machine's devices: plans of
// nothing but collectives, one after another in a graph, a few of them and then more, so that what a graph
// costs by itself is left out.
#ifndef RONDO_TOOLS_RONDO_COLLECTIVE_SWEEP_H_
#define RONDO_TOOLS_RONDO_COLLECTIVE_SWEEP_H_

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/measured_times.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {

struct SweepOptions {
  uint32_t ranks = 2;             // the first of LoadOptions::devices
  std::vector<CollectiveOp> ops;  // not sends
  bool small = false;             // by kernels over peer memory, up to the sizes that they are for
  int64_t runs = 20;              // of each graph; the median counts
};

// On the driver that `load` names for `plan`, whose target (and machine code, which a driver wants to see) is
// taken over.
Result<std::vector<MeasuredCollective>> SweepCollectives(const PlanData& plan, const LoadOptions& load,
                                                         const SweepOptions& options);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_COLLECTIVE_SWEEP_H_
