// Parts of --json output that several commands share.
#ifndef RONDO_TOOLS_RONDO_JSON_PARTS_H_
#define RONDO_TOOLS_RONDO_JSON_PARTS_H_

#include <nlohmann/json_fwd.hpp>

#include "tools/rondo/loaded.h"
#include "tools/rondo/timings.h"

namespace rondo::tools {

// {"driver", "devices": [...]}, with "threads" and "instructions" of the host's, "driver_version" of CUDA's.
nlohmann::ordered_json ToJson(const RunsOn& on);
// Milliseconds by cause.
nlohmann::ordered_json ToJson(const ReadyTimes& ready);
// {"runs", "median", "least", "p10", "p90", "most"} of sorted times, which are at least one.
nlohmann::ordered_json SpreadJson(const std::vector<double>& sorted);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_JSON_PARTS_H_
