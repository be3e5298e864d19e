// SyncPointsOf: the collectives of a program, which the devices of each group must see alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "core/status.h"

namespace rondo {

// What one device runs of the program.
struct DeviceProgram {
  uint32_t device = 0;
  const LoweredProgram* lowered = nullptr;
};

struct PlannedSyncPoint {
  LoweredCollective collective;      // its group is never empty
  uint32_t communicator = 0;         // one a group, in the order of their first sync points
  std::vector<std::string> sources;  // of the nodes it came from, on the first of the devices that see it
};

struct PlannedSyncPoints {
  std::vector<PlannedSyncPoint> points;
  // By device program, and by number there: which of `points`. Ascending.
  std::vector<std::vector<uint32_t>> numbers;
};

// One order for all: every device starts its own in the order that it has them in, and no device waits for
// one that waits for it. kInvalidArgument when devices of a group disagree about the number of their
// collectives or about one of them (op, dtype, bytes, or the node it comes from where another device has that
// node elsewhere in its order), or would wait for one another: names the devices, the sync point and the
// nodes.
Result<PlannedSyncPoints> SyncPointsOf(const std::vector<DeviceProgram>& devices);

}  // namespace rondo
