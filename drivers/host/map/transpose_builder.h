// Bytes that are stored in another order than what they are made of is read: pictures to channels last,
// shuffled channels. In maps, and in stages of reductions of one row.
#pragma once

#include "drivers/host/map/map_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Whether a tape of elements does no more than to store a byte of each point, in such another order.
bool FindTranspose(const PartContext& c, Tape tape, TransposeProgram* transpose);
// The nest of a map, but for the loop of points, which becomes the innermost.
void PointsLast(PartContext& c, TransposeProgram* transpose);
// `transpose` as found, where its points are the innermost loop. Null: the tape does not end in bytes.
Status BuildTranspose(PartContext& c, Tape tape, TransposeProgram* transpose, const TransposeProgram** built);

}  // namespace rondo::host
