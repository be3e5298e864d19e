// Random programs on several streams, with collectives in flight and loops, for tests of properties that hold
// under any timing.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/codegen/emit_plan.h"
#include "compiler/fusion/lowered.h"

namespace rondo {

struct RandomShape {
  uint32_t streams = 2;
  uint32_t devices = 1;  // with a single device there are no collectives
  int ops = 40;
  bool loops = false;
};

// The same program for every device of `shape`. Values are sums of earlier ones and have three sizes. Ops are
// on random streams, some with deps that data does not require. Several collectives are in flight at once.
LoweredProgram RandomProgram(uint64_t seed, const RandomShape& shape);

// The same on one stream, with each wait right after its start.
LoweredProgram Synchronous(LoweredProgram program);

// The timings for which memory is planned. All but the first are wrong with several streams or with
// collectives in flight.
enum class PlannedFor { kAnyTiming, kOrderOfTheList, kSynchronousCollectives };

// `program` planned for each of `devices`.
std::vector<PlannedProgram> Planned(const LoweredProgram& program, uint32_t devices,
                                    PlannedFor memory = PlannedFor::kAnyTiming);

}  // namespace rondo
