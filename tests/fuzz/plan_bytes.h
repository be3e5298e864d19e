// Plan files taken apart and sealed again, so that damage gets past the integrity check.
#pragma once

#include "tests/fuzz/target.h"

namespace rondo::fuzz {

// The sections of a plan file with its weights inside.
struct PlanParts {
  Bytes flatbuffer, code, weights;
};

// False when the container is not whole. Looks at no hash.
bool TakeApart(Span<const uint8_t> file, PlanParts* parts);
// A plan file of these sections, with right sizes and hashes.
Bytes Seal(const PlanParts& parts);
// Makes the hashes of `file` right wherever header and section table can be read.
void Reseal(Bytes* file);

}  // namespace rondo::fuzz
