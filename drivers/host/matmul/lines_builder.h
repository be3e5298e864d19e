// Matmuls of bytes that read the lhs as lines of the image (ByteLines): each byte is widened once for a line
// of the kernel, not once for each tap, and no row of k is packed for each point.
#pragma once

#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Decides whether the lhs consists of lines: adjacent taps whose guards move from tap to tap as they do from
// point to point.
void FindLines(const PartContext& c, BytesPart* part);
// Reserves scratch for the lines found, and sets the rows of a block: whole lines of points, or equal parts
// of one.
void BuildLines(PartContext& c, BytesPart* part);

}  // namespace rondo::host
