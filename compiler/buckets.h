// Buckets: a model with several values of a length (`--shape batch=1,4,16`) is a program for each.
#pragma once

#include <vector>

#include "compiler/compile.h"
#include "core/status.h"

namespace rondo {

// options.models, where each that has symbolic dimensions of several values stands once for each combination
// of them: "main" for "batch" of 1 and 4 is "main[batch=1]" and "main[batch=4]", the least first.
// kInvalidArgument for a range of what is no symbolic dimension of any model, and for too many programs.
Result<std::vector<ModelSource>> WithBuckets(const CompileOptions& options);

}  // namespace rondo
