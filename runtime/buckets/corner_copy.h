// Tensors in the corner of larger ones of their rank: dense, row-major, in host memory.
#pragma once

#include <cstddef>

#include "core/shape.h"

namespace rondo {

// `small` goes where all coordinates of `large` begin, and 0 behind it unless what is there is to stay.
// Elements have `width` bytes. Where `to` is further on by some positions of a dim, so is the corner.
void CopyIntoCorner(const void* from, const Shape& small, void* to, const Shape& large, size_t width,
                    bool clear = true);
// What lies there.
void CopyFromCorner(const void* from, const Shape& large, void* to, const Shape& small, size_t width);

}  // namespace rondo
