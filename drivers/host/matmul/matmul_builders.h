// The variants of matmuls: whether each fits, and what it needs. `Build...` may leave *out null: the variant
// does not fit after all.
#pragma once

#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Weights in fewer bits (Variant::kPacked).
bool FitsPacked(const PartContext& c);
Status BuildPacked(PartContext& c, PartProgram** out);

// Exact sums of products of 8-bit integers (Variant::kBytes).
bool FitsBytes(const PartContext& c);
Status BuildBytes(PartContext& c, PartProgram** out);

// f32 accumulators, a left side without n, right sides without m (Variant::kFewRows, kGemm).
bool FitsBlocked(const PartContext& c);
Status BuildBlocked(PartContext& c, PartProgram** out);

// Any operands (Variant::kAccumulate).
Status BuildAccumulate(PartContext& c, PartProgram** out);

// Whether right side `j` is one number for all of k and n.
bool IsRowSum(const PartContext& c, size_t j);
// How sums of bytes are made use of: in one go, or by a tape. `part` has its flips and right sides.
Status BuildSumsEpilogue(PartContext& c, SumsPart* part);

}  // namespace rondo::host
