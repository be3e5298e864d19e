// Buckets: a model with several values of a dimension (`--shape batch=1,4,16`) becomes one program for each
// value.
#pragma once

#include <vector>

#include "compiler/compile.h"
#include "core/status.h"

namespace rondo {

// options.models, in which each model with symbolic dimensions of several values is replaced by one entry for
// each combination of values: "main" for "batch" of 1 and 4 becomes "main[batch=1]" and "main[batch=4]",
// smallest first. kInvalidArgument for a range of a name that is not a symbolic dimension of any model, and
// for too many programs.
Result<std::vector<ModelSource>> WithBuckets(const CompileOptions& options);

}  // namespace rondo
