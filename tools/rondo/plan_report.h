// The output of `rondo inspect`, as a Report and as JSON.
#pragma once

#include <memory>
#include <string>

#include "formats/plan/measured_times.h"
#include "formats/plan/reader.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

struct InspectOptions {
  bool steps = false;                                       // adds a table of all steps
  bool buffers = false;                                     // adds a table of all buffers
  std::shared_ptr<const MeasuredTimes> measured = nullptr;  // shown beside each estimate; null: none
};

Report MakePlanReport(const PlanFile& plan, const std::string& path, const InspectOptions& options);

// All of the above and all tables as one JSON object.
std::string PlanToJson(const PlanFile& plan, const std::string& path);

}  // namespace rondo::tools
