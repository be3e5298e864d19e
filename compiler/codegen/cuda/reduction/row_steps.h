// Helpers for the templates of row reductions: types of row scalars and kept values, and the steps of a stage
// in which `width` threads share a row. Internal to compiler/codegen/cuda.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// Types of row scalars and kept values, from their definitions.
struct RowTypes {
  std::vector<TapeType> scalars, kept;
};
RowTypes RowTypesOf(const Part& part);

// Declares the initial values of the tape's reductions: vK, and atK for positions.
void StartReductions(Tape tape, PartWriter* writer);
// Combines the threads' values of each reduction into sK.
void FinishReductions(Tape tape, int64_t width, PartWriter* writer);
// A per-row stage: every thread of the row computes the scalars, and all store the same value.
void WriteRowScalars(const Part& part, const Stage& stage, const std::string& prefix, PartWriter* writer);

}  // namespace rondo::cuda
