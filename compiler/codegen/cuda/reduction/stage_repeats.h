// Repeated stages of a reduction, as in a search for thresholds: they become a loop in the text, which may
// end early. Internal to compiler/codegen/cuda.
#pragma once

#include <cstddef>

#include "core/kernel.h"

namespace rondo::cuda {

// Stages that repeat `times` times, followed by the first `rest` of them once more.
struct Repeat {
  size_t stages = 1, times = 1, rest = 0;
  size_t all() const { return stages * times + rest; }
};
Repeat RepeatFrom(Span<const Stage> stages, size_t first);

// The one of the repeated stages that computes the row's scalars, if there is exactly one and the others
// depend only on them and on constants: once it leaves them unchanged, so do all later ones. Otherwise the
// number of stages.
size_t StageThatEnds(Span<const Stage> stages, const Repeat& repeat, size_t first);

// Whether `before` reduces everything that `stage` reduces, into the same scalars.
bool ReducesTheSame(const Stage& before, const Stage& stage);

}  // namespace rondo::cuda
