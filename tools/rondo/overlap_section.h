// OverlapSection: the compute beside each collective of a program, as a table.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "formats/plan/overlap_note.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

Section OverlapSection(const std::string& program, const std::vector<OverlapNote>& notes);

// A step that computes while a collective runs, and for how long.
struct SharedStep {
  uint32_t step = 0;
  double microseconds = 0;
};
struct BesideCollective {
  uint32_t sync_point = 0, device = 0;
  std::vector<SharedStep> steps;
};
// By estimate, for each device's collectives in the order of their starts.
std::vector<BesideCollective> StepsBeside(const PlanData& plan, const Program& program);
Section BesideSection(const PlanData& plan, const Program& program);

}  // namespace rondo::tools
