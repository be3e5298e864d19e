// Outputs whose size data decide: such an output has room for the most that there can be, what is there comes
// first along one dim, zeros behind it, and another output, i64 [], says how much that is.
//
// The two belong together by name: `detections` of shape [300, 6] and `detections.size0`, which is its size
// along dim 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/plan.h"

namespace rondo {

// The name of the output that says how long dim `dim` of output `name` is in a run.
inline std::string SizeOutputName(std::string_view name, uint32_t dim) {
  return std::string(name) + ".size" + std::to_string(dim);
}

// Which output of `program` says how long a dim of output `output` is; none if its shape is that of the plan.
struct TrueSize {
  uint32_t dim = 0;
  uint32_t by = 0;  // into Program::outputs
};
std::optional<TrueSize> TrueSizeOf(const PlanData& plan, const Program& program, uint32_t output);

}  // namespace rondo
