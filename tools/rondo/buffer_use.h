// What the steps of a program do with some of its buffers, as far as the plan says.
#ifndef RONDO_TOOLS_RONDO_BUFFER_USE_H_
#define RONDO_TOOLS_RONDO_BUFFER_USE_H_

#include <cstdint>
#include <set>

#include "core/plan.h"

namespace rondo::tools {

// Whether a step reads one of `buffers` (into plan.buffers). Of custom ops nothing is known: they read.
bool ReadsAny(const PlanData& plan, const Program& program, const std::set<uint32_t>& buffers);

// Whether one step writes all of one of `buffers`; custom ops do.
bool RewritesAny(const PlanData& plan, const Program& program, const std::set<uint32_t>& buffers);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_BUFFER_USE_H_
