// OverlapCollectives: reorders a program so that it computes while collectives are in flight, within a memory
// budget.
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
  double budget = 0.1;  // fraction by which the arena may grow
  // Names of nodes before which a partition must end: no op moves past them.
  std::vector<std::string> break_before;
};

struct OverlapReport {
  // In the order in which they start, and numbered from 0; programs and devices are not filled in.
  std::vector<OverlapNote> collectives;
  double end_before = 0, end_after = 0;                        // of a run on all devices, microseconds
  int64_t arena_before = 0, arena_after = 0, arena_limit = 0;  // bytes, as planned (compiler/memory)
  std::string text;                                            // for reports
};

// What one device runs of a program.
struct ProgramOnDevice {
  uint32_t device = 0;
  LoweredProgram* program = nullptr;
  // Additional bytes by which the arena may grow: for weights that are gathered ahead of their use.
  int64_t ahead = 0;
  // The arena without chunks; 0: the program is not cut. The budget is a fraction of the larger arena.
  int64_t uncut_arena = 0;
};

// Reorders each program's ops so that collectives start early and are waited for late as far as that shortens
// the run on all devices, which wait for one another (pipeline stages), with independent compute in between;
// renumbers deps. Collectives keep their order. The arena, planned for the new order, is at most `budget`
// larger than for the given order; otherwise the given order stays. The run never ends later, by estimate.
// Deterministic; the same for devices with equal programs and equal peers. Ops that must not be in a graph,
// loops, and requested breaks are not moved, nor moved past. One report for each program.
std::vector<OverlapReport> OverlapOnDevices(const std::vector<ProgramOnDevice>& programs,
                                            const OverlapOptions& options);

// The same for one program that all devices run.
OverlapReport OverlapCollectives(LoweredProgram* program, const OverlapOptions& options);

}  // namespace rondo
