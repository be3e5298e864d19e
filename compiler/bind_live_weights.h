// BindLiveWeights: the last step of compiling with CompileOptions::live_weights.
#pragma once

#include "compiler/compile.h"

namespace rondo {

// Replaces the live weights of `compiled`, which are synthetic so far, by the models' values, and records
// digests of the other initializers. kUnsupported, naming the weight and the nodes, if a pass has transformed
// one; kInvalidArgument if two models have different weights of one name.
Status BindLiveWeights(const CompileOptions& options, CompiledPlan* compiled);

}  // namespace rondo
