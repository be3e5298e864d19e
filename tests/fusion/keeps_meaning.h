// Compares fused programs with their graphs: the evaluator of the IR against a plain interpreter of kernels.
#pragma once

#include <memory>
#include <random>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/graph.h"

namespace rondo {

// Integers are in [0, below), others in [-2, 2].
std::shared_ptr<const ir::ConstantData> RandomTensor(DType dtype, const Shape& shape, std::mt19937* rng,
                                                     int64_t below);

// Fuses the graph, runs the program on random inputs, in the given order of the ops and in one as different
// as their deps allow, and compares every output. Both are also planned and proven. Programs with kept loops,
// which run round by round, run in the given order alone. Returns the program for further checks.
LoweredProgram ExpectFusionKeepsMeaning(const ir::Graph& graph, uint32_t seed,
                                        const FuseOptions& options = {}, int64_t index_below = 2);

}  // namespace rondo
