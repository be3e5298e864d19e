// SweepCollectives: the times of collectives by size, on some of a machine's devices, with nothing beside
// them. It times graphs of few and of many collectives; the difference excludes the cost of a graph.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "formats/plan/measured_times.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {

struct SweepOptions {
  uint32_t ranks = 2;             // the first of LoadOptions::devices
  std::vector<CollectiveOp> ops;  // no sends
  bool small = false;             // with kernels over peer memory, up to their largest size
  int64_t runs = 20;              // of each graph; the median is reported
};

// Uses the driver that `load` names for `plan`. The timed plans take over the target and machine code of
// `plan`, which drivers require.
Result<std::vector<MeasuredCollective>> SweepCollectives(const PlanData& plan, const LoadOptions& load,
                                                         const SweepOptions& options);

}  // namespace rondo::tools
