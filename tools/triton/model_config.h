// The configuration of a model (config.pbtxt, which the server hands over as JSON) beside its plan:
// completed, or refused.
#pragma once

#include <nlohmann/json.hpp>

#include "core/status.h"
#include "tools/rondo/loaded.h"
#include "tools/serve/batch_form.h"

namespace rondo::triton {

// Adds to `config` what it leaves open: inputs, outputs, the batch size and dynamic batching. Without
// `complete` nothing may be left open. kInvalidArgument where it says other than `form` does.
Status CompleteConfig(const serve::BatchForm& form, bool complete, nlohmann::json* config);

// A text of the configuration's `parameters`; "".
std::string Parameter(const nlohmann::json& config, const char* name);

// How the plan is opened and run, by the parameters `driver`, `threads`, `ops`, `library_path`, `key`.
Result<tools::LoadOptions> LoadOptionsOf(const nlohmann::json& config);

}  // namespace rondo::triton
