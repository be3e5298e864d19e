// Expresses transposed convolutions as convolutions.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::importer {

// One entry a spatial axis each. Element i of the input adds tap t of the kernel to place
// strides * i + dilations * t of the result, from which pads are cut off and to which `extra` are added.
struct TransposedWindows {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end, extra;
  int64_t groups = 1;

  int64_t Reach(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

// x [n, c, spatial...] and w [c, o / groups, kernel...]; the result has elements along every axis.
ir::NodeId TransposedConvolution(ir::Builder& b, ir::NodeId x, ir::NodeId w, const TransposedWindows& t);

}  // namespace rondo::importer
