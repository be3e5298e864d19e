// What templates of row reductions share: types of what a row keeps, and the steps of a stage where `width`
// threads have one row. Internal to compiler/codegen/cuda.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// Types of row scalars and kept values, from what defines them.
struct RowTypes {
  std::vector<TapeType> scalars, kept;
};
RowTypes RowTypesOf(const Part& part);

// Declares what the tape's reductions start from: vK, and atK of positions.
void StartReductions(Tape tape, PartWriter* writer);
// Joins the threads' values of each reduction in sK.
void FinishReductions(Tape tape, int64_t width, PartWriter* writer);
// A stage that is once a row: every thread of the row computes the scalars; stores repeat one value.
void WriteRowScalars(const Part& part, const Stage& stage, const std::string& prefix, PartWriter* writer);

}  // namespace rondo::cuda
