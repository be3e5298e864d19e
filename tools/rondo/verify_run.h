// `rondo run --verify`: the lifecycle verifier over a plan file.
#pragma once

#include <string>
#include <vector>

#include "runtime/verify/lifecycle_verifier.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {

// Verifies the programs of the plan in file `path`, or only the one called `program`, with `inputs` (their
// names are those of input ports) where they are given. Prints to `out` what was done and found; findings go
// to standard error, too. Returns whether there was none.
Result<bool> VerifyRun(const std::string& path, const LoadOptions& load, const std::string& program,
                       const std::vector<Tensor>& inputs, CommandOutput* out);

}  // namespace rondo::tools
