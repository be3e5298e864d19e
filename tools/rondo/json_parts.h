// Parts of --json output that several commands share.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/rondo/loaded.h"
#include "tools/rondo/timings.h"

namespace rondo::tools {

// {"driver", "devices": [...]}, with "threads" and "instructions" for the host, "driver_version" for CUDA.
nlohmann::ordered_json ToJson(const RunsOn& on);
// Milliseconds by cause.
nlohmann::ordered_json ToJson(const ReadyTimes& ready);
// {"runs", "median", "least", "p10", "p90", "most"} of sorted times; there must be at least one.
nlohmann::ordered_json SpreadJson(const std::vector<double>& sorted);

}  // namespace rondo::tools
