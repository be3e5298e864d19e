// BindLiveWeights: the last step of compiling with CompileOptions::live_weights.
#pragma once

#include "compiler/compile.h"

namespace rondo {

// Gives the live weights of `compiled`, which are synthetic so far, the values that the models have, and
// notes what the other initializers hold. kUnsupported, naming the weight and the nodes, if a pass has made
// something else of one; kInvalidArgument if two models have different weights of one name.
Status BindLiveWeights(const CompileOptions& options, CompiledPlan* compiled);

}  // namespace rondo
