// A Loop whose number of rounds is decided by data, up to a bound. Internal to compiler/import.
#pragma once

#include <cstdint>

#include "compiler/import/op_context.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

// Imports the Loop node `c` with `body`. Each round is computed, at most --bound of them, and those after the
// last real one have no effect. `trips`: upper bound on the rounds if it is known, otherwise -1. `decider`:
// the node because of which the number of rounds is unknown. kUnsupported without any bound, and if the
// carried values change their shape.
Status LoopOnData(OpContext& c, const onnx::GraphProto& body, int64_t trips, ir::NodeId decider);

}  // namespace rondo::importer
