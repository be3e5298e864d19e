// EmitPlan: ordered and planned programs become one plan.
//
// Constants of equal content, state of equal name and shape, and kernels of equal structure are shared by
// all programs. Offsets of the arena are the programs' own (they share one arena and run one at a time);
// weights and state get theirs here. The same programs in the same order give the same plan.
#ifndef RONDO_COMPILER_CODEGEN_EMIT_H_
#define RONDO_COMPILER_CODEGEN_EMIT_H_

#include <string>
#include <vector>

#include "compiler/codegen/emitted_plan.h"
#include "compiler/fusion/lowered.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/partition.h"
#include "core/status.h"

namespace rondo {

// One program with every decision made. `lowered.ops` stand in their final order.
struct PlannedProgram {
  LoweredProgram lowered;
  MemoryPlan memory;
  std::vector<PlannedPartition> partitions;
};

struct EmitOptions {
  std::string target = "host";
  std::string weights_file;  // PlanData::weights_file
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

// `programs` are consumed. `report` may be null. Errors (kInternal): a program that breaks the rules of
// LoweredProgram, named with the op.
Result<EmittedPlan> EmitPlan(std::vector<PlannedProgram> programs, const EmitOptions& options,
                             EmitReport* report);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_EMIT_H_
