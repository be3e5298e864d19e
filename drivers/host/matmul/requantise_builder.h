// Epilogues of matmuls of bytes that scale the sums, and perhaps quantise them: see Requantisation.
#pragma once

#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Which instructions of the epilogue depend on the column alone. Not ok() when out of memory.
GrowingList<uint8_t> DependOnColumns(const PartContext& c);

// Follows accumulator `sum`, an instruction of `tape`, to what stores it. False: the epilogue is something
// else. Registers of `to` are instructions of the tape.
bool MatchRequantisation(PartContext& c, Tape tape, const GrowingList<uint8_t>& of_columns, size_t sum,
                         Requantisation* to);
// The same as far as it goes: to instruction `floats`, which is a float.
bool MatchFloats(PartContext& c, Tape tape, const GrowingList<uint8_t>& of_columns, size_t sum,
                 Requantisation* to, uint16_t* floats);

}  // namespace rondo::host
