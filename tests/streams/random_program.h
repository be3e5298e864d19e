// Random programs on several streams, with collectives in flight and loops, for tests of what holds whatever
// the timing.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/codegen/emit_plan.h"
#include "compiler/fusion/lowered.h"

namespace rondo {

struct RandomShape {
  uint32_t streams = 2;
  uint32_t devices = 1;  // collectives only on several
  int ops = 40;
  bool loops = false;
};

// The same program for every device of `shape`. Values are sums of earlier ones, of three sizes; ops lie on
// random streams, some with deps that no data asks for; several collectives are in flight at once.
LoweredProgram RandomProgram(uint64_t seed, const RandomShape& shape);

// The same on one stream, with each wait right after its start.
LoweredProgram Synchronous(LoweredProgram program);

// Which orders of time memory is planned for. All but the first are wrong where there are several streams, or
// collectives in flight.
enum class PlannedFor { kAnyTiming, kOrderOfTheList, kSynchronousCollectives };

// `program` on each of `devices`.
std::vector<PlannedProgram> Planned(const LoweredProgram& program, uint32_t devices,
                                    PlannedFor memory = PlannedFor::kAnyTiming);

}  // namespace rondo
