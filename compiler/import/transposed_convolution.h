// Expresses transposed convolutions as convolutions.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::importer {

// One entry per spatial axis. Element i of the input adds tap t of the kernel to place strides * i +
// dilations * t of the result. Then `pads` are cut off the result, and `extra` elements are added at its end.
struct TransposedWindows {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end, extra;
  int64_t groups = 1;

  int64_t Reach(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

// x [n, c, spatial...] and w [c, o / groups, kernel...]; the result must not be empty.
ir::NodeId TransposedConvolution(ir::Builder& b, ir::NodeId x, ir::NodeId w, const TransposedWindows& t);

}  // namespace rondo::importer
