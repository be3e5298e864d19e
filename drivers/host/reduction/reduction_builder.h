// Reductions of rows: to row scalars, in stages.
#pragma once

#include "drivers/host/part_context.h"
#include "drivers/host/reduction/reduction_program.h"

namespace rondo::host {

Status BuildReduction(PartContext& c, PartProgram** out);

// Whether the part reduces a single row to the least and greatest of floats (one_row_builder.cc): its
// elements are shared out among threads, where else each row is one thread's.
bool FitsOneRow(const PartContext& c);
// Completes `part`, whose stages BuildReduction has made.
Status BuildOneRow(PartContext& c, Span<StageProgram> stages, ReductionPart* part);

// Whether the stages are a softmax (softmax_builder.cc): the greatest of a row; exponentials, which are kept,
// and their sum; those over the sum. Rows lie one element behind the other.
bool FindSoftmax(const PartContext& c, const ReductionPart& part, Span<StageProgram> stages,
                 SoftmaxProgram* softmax);

}  // namespace rondo::host
