// OverlapCollectives: collectives in flight while the program computes, within a budget of memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "formats/plan/cost_model.h"
#include "formats/plan/overlap_note.h"

namespace rondo {

struct OverlapOptions {
  CostModel costs;
  double budget = 0.1;  // by how much of its bytes the arena may grow
  // Names of nodes that a partition must end before: no op is moved past them.
  std::vector<std::string> break_before;
};

struct OverlapReport {
  // In the order in which they start: numbers count from there; programs and devices are not named.
  std::vector<OverlapNote> collectives;
  double end_before = 0, end_after = 0;                        // of a run on all devices, microseconds
  int64_t arena_before = 0, arena_after = 0, arena_limit = 0;  // bytes, as planned (compiler/memory)
  std::string text;                                            // for reports
};

// What one device runs of a program.
struct ProgramOnDevice {
  uint32_t device = 0;
  LoweredProgram* program = nullptr;
  // Bytes by which the arena may grow, too: of weights that are gathered ahead of their use.
  int64_t ahead = 0;
  // What it would take if it were not cut into chunks; 0: it is not. The budget is of the larger.
  int64_t uncut_arena = 0;
};

// Puts each program's ops into an order in which collectives start as early and are waited for as late as
// that shortens the run on all devices, which wait for one another (stages of a pipeline), with compute that
// does not need them in between; deps renumbered. Collectives keep their order, and the arena, planned for
// the order, is at most `budget` larger than for the order given: else the order given stays. The run never
// ends later, by estimate. Deterministic; the same for devices with equal programs and equal peers. What no
// graph may contain, loops, and breaks that were asked for are not moved, nor moved past. One report a
// program.
std::vector<OverlapReport> OverlapOnDevices(const std::vector<ProgramOnDevice>& programs,
                                            const OverlapOptions& options);

// The same of one program, whose devices all run it.
OverlapReport OverlapCollectives(LoweredProgram* program, const OverlapOptions& options);

}  // namespace rondo
