// The variants of matmuls: whether each fits, and how it is built. `Build...` may leave *out null: then the
// variant does not fit after all.
#pragma once

#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/part_context.h"

namespace rondo::host {

// Weights in fewer bits (Variant::kPacked).
bool FitsPacked(const PartContext& c);
Status BuildPacked(PartContext& c, PartProgram** out);

// Exact matmuls of 8-bit integers (Variant::kBytes).
bool FitsBytes(const PartContext& c);
Status BuildBytes(PartContext& c, PartProgram** out);

// f32 accumulators, an lhs that does not depend on n, rhs that do not depend on m (Variant::kFewRows, kGemm).
bool FitsBlocked(const PartContext& c);
Status BuildBlocked(PartContext& c, PartProgram** out);

// Any operands (Variant::kAccumulate).
Status BuildAccumulate(PartContext& c, PartProgram** out);

// Whether rhs `j` is one number for all of k and n.
bool IsRowSum(const PartContext& c, size_t j);
// Builds the epilogue of byte sums: in one loop, or by a tape. `part` already has its flips and right sides.
Status BuildSumsEpilogue(PartContext& c, SumsPart* part);

}  // namespace rondo::host
