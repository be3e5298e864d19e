// `rondo run --verify`: the lifecycle verifier over a plan file.
#pragma once

#include <string>
#include <vector>

#include "runtime/verify/lifecycle_verifier.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {

// Verifies the programs of the plan in file `path`, or only the one called `program`. `inputs` (named like
// input ports) are used where given. Prints the checks and findings to `out`; findings also go to standard
// error. Returns whether there were no findings.
Result<bool> VerifyRun(const std::string& path, const LoadOptions& load, const std::string& program,
                       const std::vector<Tensor>& inputs, CommandOutput* out);

}  // namespace rondo::tools
