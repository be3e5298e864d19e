// The structure-aware mutator of plans.
#pragma once

#include "tests/fuzz/target.h"

namespace rondo::fuzz {

// Mostly: decodes the plan, changes one to three of its fields (each sort of field as likely as any other),
// encodes and seals it. Sometimes damages the flatbuffer's bytes and seals it, or the container's bytes.
Bytes MutatePlan(Span<const uint8_t> file, Random& random);

}  // namespace rondo::fuzz
