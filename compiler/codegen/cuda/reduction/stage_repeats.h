// Stages of a reduction that come again and again, as where thresholds are searched for: a loop in the text,
// which may end early. Internal to compiler/codegen/cuda.
#pragma once

#include <cstddef>

#include "core/kernel.h"

namespace rondo::cuda {

// Stages from one on that are the same again and again, and the first `rest` of them once more.
struct Repeat {
  size_t stages = 1, times = 1, rest = 0;
  size_t all() const { return stages * times + rest; }
};
Repeat RepeatFrom(Span<const Stage> stages, size_t first);

// Which of the stages that repeat computes the row's scalars, if one does and the others depend on them and
// on what never changes: once it leaves them as they were, so does whatever follows. Else their number.
size_t StageThatEnds(Span<const Stage> stages, const Repeat& repeat, size_t first);

// Whether all that `stage` reduces is reduced by `before`, too, into the same scalars.
bool ReducesTheSame(const Stage& before, const Stage& stage);

}  // namespace rondo::cuda
