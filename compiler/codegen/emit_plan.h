// EmitPlan: ordered and planned programs become one plan.
//
// Constants of equal content, state of equal name and shape, and kernels of equal structure are shared by
// all programs. Offsets of the arena are the programs' own (they share one arena and run one at a time);
// weights and state get theirs here. The same programs in the same order give the same plan.
//
// A program of several devices is one PlannedProgram a device, of one name: its steps stand device by device.
// Inputs of one name are one port with replicas; an output or state is called "name" on the first device that
// has one of the name, "name@d" on every other device d.
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

// One program on one device with every decision made. `lowered.ops` stand in their final order.
struct PlannedProgram {
  LoweredProgram lowered;
  uint32_t device = 0;
  MemoryPlan memory;
  std::vector<PlannedPartition> partitions;
  OverlapReport overlap;  // becomes texts among the plan's sources (formats/plan/overlap_note.h)
};

struct EmitOptions {
  Targets targets;
  std::string weights_file;  // PlanData::weights_file
  // Those that no buffer is called by get a source of their own, which nothing refers to, so that who asks
  // the plan for one can be told where it went: `value "NAME" of Op "node"`.
  std::vector<NamedValue> values;
  std::vector<std::string> fates;  // further sources (formats/plan/node_fate.h)
  // What estimates took for known, or null: becomes texts among the sources as far as the plan asks for it.
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

// `programs` are consumed; those of one name follow one another, devices from 0 on. `report` may be null.
// Errors: a program that breaks the rules of LoweredProgram, named with the op (kInternal); devices that
// disagree about an input or a collective (kInvalidArgument).
Result<EmittedPlan> EmitPlan(std::vector<PlannedProgram> programs, const EmitOptions& options,
                             EmitReport* report);

}  // namespace rondo
