// Reductions of rows to row scalars, in stages.
#pragma once

#include "drivers/host/part_context.h"
#include "drivers/host/reduction/reduction_program.h"

namespace rondo::host {

Status BuildReduction(PartContext& c, PartProgram** out);

// Whether the part reduces a single row to the minimum and maximum of floats (one_row_builder.cc). Its
// elements are then split over threads; otherwise each row belongs to one thread.
bool FitsOneRow(const PartContext& c);
// Completes `part`, whose stages BuildReduction has made.
Status BuildOneRow(PartContext& c, Span<StageProgram> stages, ReductionPart* part);

// Whether the stages are a softmax (softmax_builder.cc): the maximum of a row; exponentials, which are kept,
// and their sum; the quotients. The elements of a row must be contiguous.
bool FindSoftmax(const PartContext& c, const ReductionPart& part, Span<StageProgram> stages,
                 SoftmaxProgram* softmax);

}  // namespace rondo::host
