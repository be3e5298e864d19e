// NewWeights: values for live weights of a plan, checked and converted to the plan's form.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "tools/weights/weight_files.h"

namespace rondo::tools {

// Some of the bytes belong to the file, which must outlive this object. Movable.
struct NewWeights {
  std::map<uint32_t, Span<const uint8_t>> bytes;  // by buffer of the plan
  size_t replaced = 0;                            // number of initializers
  std::vector<std::vector<uint8_t>> made;
};

// Fails unless all of `file` fits: each weight is a live weight of the plan. Weights of a model that are not
// live must equal those that the plan was compiled with.
Result<NewWeights> FitWeights(const PlanData& plan, const WeightFile& file);

// Writes the plan in `path` with new values to `output`, which may be the same path. Writes nothing unless
// the file fits. `replaced` gets the number of initializers replaced.
Status ReplaceInFile(const std::string& path, const WeightFile& file, const std::string& output,
                     size_t* replaced);

}  // namespace rondo::tools
