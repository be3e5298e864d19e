// Finds tapes that store bytes in another order than their inputs are read: images to channels last, shuffled
// channels. In maps, and in stages of single-row reductions.
#pragma once

#include "drivers/host/map/map_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Whether a per-element tape only stores one byte for each point, in another order than it reads.
bool FindTranspose(const PartContext& c, Tape tape, TransposeProgram* transpose);
// Makes the loop of points the innermost one of a map's nest.
void PointsLast(PartContext& c, TransposeProgram* transpose);
// Builds the transpose that FindTranspose found; its points must be the innermost loop. *built is null if the
// tape does not end in bytes.
Status BuildTranspose(PartContext& c, Tape tape, TransposeProgram* transpose, const TransposeProgram** built);

}  // namespace rondo::host
