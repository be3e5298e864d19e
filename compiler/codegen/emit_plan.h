// EmitPlan: turns ordered programs with memory plans into one plan.
//
// All programs share constants of equal content, state of equal name and shape, and kernels of equal
// structure. Programs keep their arena offsets (they share one arena and run one at a time); weights and
// state get theirs here. The same programs in the same order give the same plan.
//
// A program for several devices is one PlannedProgram for each device, all of one name; its steps are ordered
// by device. Inputs of one name become one port with replicas. An output or state is called "name" on the
// first device that has it, and "name@d" on every other device d.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/emitted_plan.h"
#include "compiler/fusion/lowered.h"
#include "compiler/ir/named_value.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/overlap.h"
#include "compiler/schedule/partition.h"
#include "compiler/targets.h"
#include "core/status.h"
#include "formats/plan/measured_times.h"

namespace rondo {

// One program on one device, with every decision made. `lowered.ops` are in their final order.
struct PlannedProgram {
  LoweredProgram lowered;
  uint32_t device = 0;
  std::string variant_of;  // the name of an earlier program (Program::variant_of), or empty
  MemoryPlan memory;
  std::vector<PlannedPartition> partitions;
  // What the assertions of its tapes (TapeOp::kAssertFinite) are of, by imm.i.
  std::vector<NamedValue> asserted;
  OverlapReport overlap;  // becomes texts among the plan's sources (formats/plan/overlap_note.h)
};

struct EmitOptions {
  Targets targets;
  std::string weights_file;  // PlanData::weights_file
  // Values that no buffer is named after get a source of their own, which nothing refers to, so that tools
  // can say where the value went: `value "NAME" of Op "node"`.
  std::vector<NamedValue> values;
  std::vector<std::string> fates;  // further sources (formats/plan/node_fate.h)
  // Measurements used by the estimates, or null; those that concern the plan become texts among its sources.
  std::shared_ptr<const MeasuredTimes> times = nullptr;
};

struct EmitReport {
  uint64_t weights_bytes = 0;    // stored as bytes
  uint64_t synthetic_bytes = 0;  // generated
  uint64_t state_bytes = 0;
  uint64_t arena_bytes = 0;
  uint32_t shared_constants = 0;  // uses of a constant that another program or value had already
  uint32_t kernels = 0;           // distinct
  std::string text;               // one sentence for reports
};

inline constexpr uint64_t kStateAlignment = 4096;  // of every state's offset and of the region's end

// Consumes `programs`; those of one name must be adjacent, with devices from 0 on, and variants come last.
// `report` may be null. Errors: a program that breaks the rules of LoweredProgram, naming the op (kInternal);
// devices that disagree about an input or a collective (kInvalidArgument).
Result<EmittedPlan> EmitPlan(std::vector<PlannedProgram> programs, const EmitOptions& options,
                             EmitReport* report);

}  // namespace rondo
