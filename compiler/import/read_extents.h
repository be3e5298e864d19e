// Records the lengths that an import has read as numbers.
#pragma once

#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::importer {

// `a` and `b` are one model imported with room for different lengths, which are sizes that a run decides.
// They are made alike, node by node, and every number in them is the same: a number that differs comes of a
// length that is taken to be as long as there is room for. kUnsupported then, with its node.
// `remedy` ends the sentence.
Status CheckNoExtentIsRead(const ir::Graph& a, const ir::Graph& b, const char* remedy);

}  // namespace rondo::importer
