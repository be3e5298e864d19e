// Which fusions of a program stand in the way of something: what their kernels delay, and what they keep
// alive. Plain functions; nodes are those of the
// graph that was fused, which LoweredOp::nodes names.
#pragma once

#include <vector>

#include "compiler/fusion/fuse.h"
#include "compiler/fusion/lowered.h"
#include "compiler/ir/graph.h"
#include "formats/plan/overlap_note.h"

namespace rondo {

// Nodes that wait for an exposed collective, the first of each kernel, and each matmul, reduction and their
// like in the same kernel that does not: apart from them, it could run beside the collective.
std::vector<NodePair> WhatDelays(const ir::Graph& graph, const LoweredProgram& program,
                                 const std::vector<OverlapNote>& collectives);

// Nodes of kernels that run after the step at which most bytes are live, and their readers there: pointwise
// work that could be done before that step, and whose result is smaller than what it reads and nothing else
// needs any more.
std::vector<NodePair> WhatKeepsAlive(const ir::Graph& graph, const LoweredProgram& program);

}  // namespace rondo
