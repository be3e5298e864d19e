// ExpandLoops: the rounds of loops become ops, of which one or two stand for all but the first and last.
#pragma once

#include <string>

#include "compiler/fusion/lowered.h"

namespace rondo {

// Replaces every kLoop op by those of its body: once for rounds that stand alone, else as ops that repeat
// (LoweredOp::loop), with bindings that move by a row from round to round. A value that the rounds hand on is
//   a row of what the loop shows of all rounds: then the first round, which reads another place, stands
//   alone; or changed in place; or in two places by turns: then two rounds repeat, and a last one may be left
//   over.
// Returns what it did, for reports.
std::string ExpandLoops(LoweredProgram* program);

}  // namespace rondo
