// The structure-aware mutator of plans.
#pragma once

#include "tests/fuzz/target.h"

namespace rondo::fuzz {

// Mostly: decodes the plan, changes one to three of its fields (each kind of field is equally likely),
// encodes and seals it. Sometimes damages the flatbuffer's bytes and seals it, or damages the container's
// bytes.
Bytes MutatePlan(Span<const uint8_t> file, Random& random);

}  // namespace rondo::fuzz
