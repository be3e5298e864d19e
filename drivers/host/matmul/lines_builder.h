// Matmuls of bytes whose left side is read as lines of the picture (ByteLines): each byte is widened once a
// line of the kernel, not once a tap, and no row of k is put together for each point.
#pragma once

#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Finds how the left side's runs are lines, if they are: taps that lie beside each other, whose presence goes
// on from one to the next as it does from point to point.
void FindLines(const PartContext& c, BytesPart* part);
// Takes what the lines found need of scratch, and says how many rows are a block: whole lines of points, or
// even parts of one.
void BuildLines(PartContext& c, BytesPart* part);

}  // namespace rondo::host
