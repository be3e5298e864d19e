// SyncPointsOf: collects the collectives of a program, and checks that the devices of each group agree on
// them.
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
  uint32_t communicator = 0;         // one for each group, in the order of their first sync points
  std::vector<std::string> sources;  // of the nodes it came from, on the first of the devices that see it
};

struct PlannedSyncPoints {
  std::vector<PlannedSyncPoint> points;
  // By device program and its own index: the index in `points`. Ascending.
  std::vector<std::vector<uint32_t>> numbers;
};

// Finds one order for all: every device starts its collectives in its own order, and devices never wait for
// one another in a cycle. kInvalidArgument when devices of a group disagree about the number of their
// collectives, or about one of them (op, dtype, bytes, or the source node if another device has that node
// elsewhere in its order), or would wait for one another: names the devices, the sync point and the nodes.
Result<PlannedSyncPoints> SyncPointsOf(const std::vector<DeviceProgram>& devices);

}  // namespace rondo
