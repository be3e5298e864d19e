// Runs a TransposeProgram: bytes are stored in another order than their inputs are read.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/map/map_program.h"

namespace rondo::host::RONDO_ISA {

// Runs parts [share, end) of `shares` parts of the transpose.
void RunTranspose(const PartProgram& part, const TransposeProgram& transpose, TapeFrame& frame, int64_t share,
                  int64_t end, int64_t shares);

}  // namespace rondo::host::RONDO_ISA
