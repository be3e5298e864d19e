// AssignStreams: assigns each op to a stream.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/fusion/lowered.h"
#include "compiler/ir/node_annotation.h"
#include "core/status.h"

namespace rondo {

// Ops annotated `stream: N` (0 to 63) go to that stream, all others to stream 0, where a graph begins and
// ends. Streams are renumbered without gaps. A loop goes to the stream of its first op. A call that must not
// be in a graph stays on stream 0, whose errors a run reports. Any assignment is correct: deps order what
// streams do not (compiler/memory/stream_order.h), and memory is planned for that order. Returns a text for
// reports; kInvalidArgument, with the node, for an invalid number.
Result<std::string> AssignStreams(LoweredProgram* program);

}  // namespace rondo
