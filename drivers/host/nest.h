// Merges and orders a part's loops and cuts them into tiles.
#pragma once

#include "core/arena.h"
#include "drivers/host/program.h"

namespace rondo::host {

// The nest of `part`. Loops of extent 1 are dropped. Adjacent loops of one group are merged where every
// operand and guard walks them as one. The loops of a map are ordered for its first written operand, except
// in a sequential part.
//
// `channels`, for a convolution or pool: group m is the points of all images, n the output channels, and
// outer the groups of several output channels, unless they share the input: then they are part of n.
// Otherwise m is the output channels and n the points of one image.
Nest MakeNest(const Part& part, bool channels);

// Whether the channels of a convolution's weight or a pool's input are contiguous.
bool ChannelsLast(const Part& part);

// Cuts group loops [first, end) of `nest` into tiles of at most `lanes` points. `linear`: tiles stay within
// the innermost loop, so that every lane pattern is a stride.
Tiling MakeTiling(const Nest& nest, int first, int end, int lanes, bool linear);

// The lane pattern of the linear function with `coefficients` (one for each loop of the nest), and its
// smallest and largest lane term over a full tile. False: out of memory or, with *overflow set, a table entry
// does not fit.
bool MakeLane(const Nest& nest, const Tiling& tiling, const int64_t* coefficients, Arena& arena,
              LanePattern* lane, int64_t* least, int64_t* greatest, bool* overflow);

// Strides of `operand` over the loops of the part, including the terms of its guards.
void FullStrides(const Operand& operand, int loops, int64_t* strides);

}  // namespace rondo::host
