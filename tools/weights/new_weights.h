// NewWeights: values for live weights of a plan, checked and in the form that the plan has them in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "tools/weights/weight_files.h"

namespace rondo::tools {

// Some of the bytes are the file's own, which must outlive it. Movable.
struct NewWeights {
  std::map<uint32_t, Span<const uint8_t>> bytes;  // by buffer of the plan
  size_t replaced = 0;                            // initializers
  std::vector<std::vector<uint8_t>> made;
};

// Refused unless all of `file` fits: every weight is a live one of the plan's, and of a model those that are
// not live are what the plan was compiled with.
Result<NewWeights> FitWeights(const PlanData& plan, const WeightFile& file);

// The plan in `path` with new values, written to `output`, which may be the same path; nothing is written
// unless the file fits. `replaced`: how many initializers were.
Status ReplaceInFile(const std::string& path, const WeightFile& file, const std::string& output,
                     size_t* replaced);

}  // namespace rondo::tools
