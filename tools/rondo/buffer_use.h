// Whether the steps of a program read or write some of its buffers, according to the plan.
#pragma once

#include <cstdint>
#include <set>

#include "core/plan.h"

namespace rondo::tools {

// Whether a step reads one of `buffers` (indices into plan.buffers). Custom ops count as reading.
bool ReadsAny(const PlanData& plan, const Program& program, const std::set<uint32_t>& buffers);

// Whether a step writes all of one of `buffers`. Custom ops count as doing so.
bool RewritesAny(const PlanData& plan, const Program& program, const std::set<uint32_t>& buffers);

}  // namespace rondo::tools
