// Window attributes, shared by convolutions and pools.
#pragma once

#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

// One entry per spatial axis.
struct WindowAttrs {
  std::vector<int64_t> kernel, strides, dilations, pads_begin, pads_end;
  std::vector<int64_t> output;  // extents of the result

  int rank() const { return static_cast<int>(kernel.size()); }
  int64_t Reach(int i) const {
    size_t a = static_cast<size_t>(i);
    return dilations[a] * (kernel[a] - 1) + 1;
  }
};

// Reads strides, dilations, pads and auto_pad for input 0 of shape [n, c, spatial...] and a kernel with these
// extents, and computes the extents of the result. Errors: values out of range, an empty result.
Result<WindowAttrs> ReadWindow(OpContext& c, const std::vector<int64_t>& kernel, bool ceil_mode);

// Attribute `name` with one entry per spatial axis; all `otherwise` if it is absent.
Result<std::vector<int64_t>> SpatialInts(const OpContext& c, const char* name, int spatial, int64_t otherwise,
                                         int line = __builtin_LINE());

}  // namespace rondo::importer
