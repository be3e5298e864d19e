// OnEveryDevice: all devices do all work (--weights gather), except lookups in tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/rank_graph.h"
#include "core/status.h"

namespace rondo::shard {

struct CopiedGraph {
  std::vector<ir::Graph> ranks;  // one a device
  std::string text;              // for people: the tables that are looked up where they are; may be empty
};

// What each of so many devices runs of a stage (or of a whole model): alike, to the bit, but for whom they
// send to (the device of the same rank in the other stage). Of a table that is read by index, and is far
// larger than what is read, each device has its rows (ConstantData::part_of), and all sum what they find:
// numbers and zeros, so that it is what one device reads.
Status OnEveryDevice(ir::Graph stage, int64_t devices, StageNumber number, CopiedGraph* out);

}  // namespace rondo::shard
