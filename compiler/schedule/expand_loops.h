// ExpandLoops: replaces loops by the ops of their rounds; one or two copies repeat and stand for all but the
// first and last rounds.
#pragma once

#include <string>

#include "compiler/fusion/lowered.h"

namespace rondo {

// Replaces every kLoop op by the ops of its body: once for rounds that stand alone, otherwise as ops that
// repeat (LoweredOp::loop), with bindings that move by a row from round to round. A value passed between
// rounds is one of these:
// - a row of the loop's result over all rounds: then the first round, which reads another place, stands
//   alone;
// - updated in place;
// - in two places alternately: then two rounds repeat, and a last one may be left over.
// Returns a text for reports.
std::string ExpandLoops(LoweredProgram* program);

}  // namespace rondo
