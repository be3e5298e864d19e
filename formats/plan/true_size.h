// Outputs with sizes that depend on data. Such an output is as large as it can ever be. The actual elements
// come first along each such dimension, followed by zeros. Another output per dimension, i64 [], gives their
// number.
//
// The two belong together by name: `detections` of shape [300, 6] and `detections.size0`, its size along
// dimension 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"

namespace rondo {

// The name of the output that gives the actual size of dimension `dim` of output `name`.
inline std::string SizeOutputName(std::string_view name, uint32_t dim) {
  return std::string(name) + ".size" + std::to_string(dim);
}

// The size outputs of an output of `program`; none if its shape is the plan's.
struct TrueSize {
  uint32_t dim = 0;
  uint32_t by = 0;  // into Program::outputs
};
std::vector<TrueSize> TrueSizesOf(const PlanData& plan, const Program& program, uint32_t output);

}  // namespace rondo
