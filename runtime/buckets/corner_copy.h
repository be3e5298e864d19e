// Copies between a tensor and the corner of a larger one of the same rank: dense, row-major, in host memory.
#pragma once

#include <cstddef>

#include "core/shape.h"

namespace rondo {

// Copies `small` to where all coordinates of `large` begin. `clear`: the rest of `large` becomes 0; otherwise
// it stays. Elements have `width` bytes. To move the corner along a dimension, pass a later `to`.
void CopyIntoCorner(const void* from, const Shape& small, void* to, const Shape& large, size_t width,
                    bool clear = true);
// Copies the corner out.
void CopyFromCorner(const void* from, const Shape& large, void* to, const Shape& small, size_t width);

}  // namespace rondo
