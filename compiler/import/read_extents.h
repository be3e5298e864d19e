// Finds operators that took the room for a length as its value.
#pragma once

#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::importer {

// `a` and `b` are imports of one model with different room for its lengths, which are run-time sizes. Both
// must have the same nodes with the same numbers: if a number differs, some operator took the room for the
// length. Then kUnsupported, with the node. `remedy` ends the message.
Status CheckNoExtentIsRead(const ir::Graph& a, const ir::Graph& b, const char* remedy);

}  // namespace rondo::importer
