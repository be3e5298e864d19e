// Completes a model's configuration (config.pbtxt, which the server passes as JSON) from its plan, or refuses
// it.
#pragma once

#include <nlohmann/json.hpp>

#include "core/status.h"
#include "tools/rondo/loaded.h"
#include "tools/serve/batch_form.h"

namespace rondo::triton {

// Adds to `config` what it leaves open: inputs, outputs, the batch size and dynamic batching. Without
// `complete` nothing may be left open. kInvalidArgument if it contradicts `form`.
Status CompleteConfig(const serve::BatchForm& form, bool complete, nlohmann::json* config);

// The value of one of the configuration's `parameters`; "" if it is not there.
std::string Parameter(const nlohmann::json& config, const char* name);

// How to open and run the plan, from the parameters `driver`, `threads`, `ops`, `library_path` and `key`.
Result<tools::LoadOptions> LoadOptionsOf(const nlohmann::json& config);

}  // namespace rondo::triton
