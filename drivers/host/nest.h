// How a part's loops are merged, ordered and cut into tiles.
#pragma once

#include "core/arena.h"
#include "drivers/host/program.h"

namespace rondo::host {

// The nest of `part`: loops of extent 1 are left out, adjacent loops of one group are merged where every
// operand and guard walks them as one, and the loops of a map are ordered for its first written operand
// (not those of a sequential part).
//
// `channels`: of a convolution or pool, group m is the points of all pictures, n the output channels, and
// outer the groups of several output channels; otherwise m is the output channels and n the points of a
// picture.
Nest MakeNest(const Part& part, bool channels);

// Whether the channels of a convolution's weight or of a pool's input lie side by side.
bool ChannelsLast(const Part& part);

// Cuts group loops [first, end) of `nest` into tiles of at most `lanes` points. `linear`: tiles lie within
// the innermost loop, so that every lane pattern is a stride.
Tiling MakeTiling(const Nest& nest, int first, int end, int lanes, bool linear);

// Lane pattern of the linear function with `coefficients` (one per loop of the nest), its least and
// greatest lane term over a full tile. False: out of memory, or (with *overflow set) a table entry does
// not fit.
bool MakeLane(const Nest& nest, const Tiling& tiling, const int64_t* coefficients, Arena& arena,
              LanePattern* lane, int64_t* least, int64_t* greatest, bool* overflow);

// Strides of `operand` over the loops of the part, the guards' own terms included.
void FullStrides(const Operand& operand, int loops, int64_t* strides);

}  // namespace rondo::host
