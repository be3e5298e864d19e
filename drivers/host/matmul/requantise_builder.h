// Recognises epilogues of byte matmuls that scale the sums and perhaps quantise them: see Requantisation.
#pragma once

#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Marks the instructions of the epilogue that depend on the column alone. Not ok() when out of memory.
GrowingList<uint8_t> DependOnColumns(const PartContext& c);

// Matches everything from accumulator `sum`, an instruction of `tape`, to its store. False if the epilogue is
// something else. Registers of `to` are instructions of the tape.
bool MatchRequantisation(PartContext& c, Tape tape, const GrowingList<uint8_t>& of_columns, size_t sum,
                         Requantisation* to);
// The same up to an instruction with a float result, `floats`.
bool MatchFloats(PartContext& c, Tape tape, const GrowingList<uint8_t>& of_columns, size_t sum,
                 Requantisation* to, uint16_t* floats);

}  // namespace rondo::host
