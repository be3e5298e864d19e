// Bytes that are stored in another order than what they are made of is read: see TransposeProgram.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/map/map_program.h"

namespace rondo::host::RONDO_ISA {

// The `share`-th to before the `end`-th of `shares` parts of what is transposed.
void RunTranspose(const PartProgram& part, const TransposeProgram& transpose, TapeFrame& frame, int64_t share,
                  int64_t end, int64_t shares);

}  // namespace rondo::host::RONDO_ISA
