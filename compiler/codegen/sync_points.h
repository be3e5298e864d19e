// SyncPointsOf: the collectives of a program, which all of its devices must see alike.
#ifndef RONDO_COMPILER_CODEGEN_SYNC_POINTS_H_
#define RONDO_COMPILER_CODEGEN_SYNC_POINTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "core/status.h"

namespace rondo {

struct PlannedSyncPoint {
  LoweredCollective collective;
  std::vector<std::string> sources;  // of the nodes it came from, on the first device
};

// `devices` are the same program on each device, in order. kInvalidArgument when two of them disagree about
// the number of collectives or about one of them (op, dtype, bytes, or the node it comes from where another
// device has that node elsewhere in its order): names the devices, the sync point and the nodes.
Result<std::vector<PlannedSyncPoint>> SyncPointsOf(const std::vector<const LoweredProgram*>& devices);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_SYNC_POINTS_H_
