// Finds fusions that cost more than they save: because of what their kernels delay, or of what they keep
// alive. Plain functions; nodes are those of the graph before fusion, as in LoweredOp::nodes.
#pragma once

#include <vector>

#include "compiler/fusion/fuse.h"
#include "compiler/fusion/lowered.h"
#include "compiler/ir/graph.h"
#include "formats/plan/overlap_note.h"

namespace rondo {

// Pairs of nodes in one kernel: the first waits for an exposed collective; the second is a matmul, reduction
// or similar that does not, so in a kernel of its own it could run beside the collective.
std::vector<NodePair> WhatDelays(const ir::Graph& graph, const LoweredProgram& program,
                                 const std::vector<OverlapNote>& collectives);

// Pairs of nodes and their readers, in kernels after the step with the most live bytes: pointwise work that
// could run before that step, and whose result is smaller than its inputs, which nothing else needs any more.
std::vector<NodePair> WhatKeepsAlive(const ir::Graph& graph, const LoweredProgram& program);

}  // namespace rondo
