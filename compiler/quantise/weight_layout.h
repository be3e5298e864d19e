// WeightLayout: how matmuls read a matrix as their rhs. Internal to compiler/quantise.
#pragma once

#include <optional>

#include "compiler/passes/pass.h"

namespace rondo::passes {

// A weight as a matrix with rows n: element (n, k) is number n * n_stride + k * k_stride.
struct WeightLayout {
  int64_t n = 0, k = 0, n_stride = 0, k_stride = 0;
};

// How matmuls read all of node `id`, a matrix, as their rhs. No value if anything else reads it, if they
// differ, or if it is smaller than packed weights can be (16 columns of 32 numbers).
std::optional<WeightLayout> WeightLayoutOf(ir::Graph* graph, ir::NodeId id);

}  // namespace rondo::passes
