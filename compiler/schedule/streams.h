// AssignStreams: which stream each op is enqueued on.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/fusion/lowered.h"
#include "compiler/ir/node_annotation.h"
#include "core/status.h"

namespace rondo {

// Ops annotated `stream: N` (0 to 63) go to that stream, all others to stream 0, where a graph begins and
// ends. Streams are numbered anew without gaps. A loop goes where its first op goes; a call that no graph may
// contain stays on stream 0, whose errors a run reports. Any assignment is right: deps
// order what streams do not (compiler/memory/stream_order.h), and memory is planned for that order.
// Returns what it did, for reports; kInvalidArgument, with the node, for an annotation that is no such
// number.
Result<std::string> AssignStreams(LoweredProgram* program);

}  // namespace rondo
