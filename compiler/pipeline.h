// The pipeline: every pass of the compiler, in order, in one table (pipeline.cc). Start reading there.
#ifndef RONDO_COMPILER_PIPELINE_H_
#define RONDO_COMPILER_PIPELINE_H_

#include <string>
#include <string_view>
#include <vector>

#include "compiler/codegen/emit_plan.h"
#include "compiler/compile.h"
#include "compiler/fusion/lowered.h"
#include "compiler/ir/graph.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/least_memory.h"
#include "compiler/schedule/partition.h"
#include "compiler/targets.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

// One program, as one device runs it, on its way from a model to steps. Passes fill in what comes after them.
struct ProgramInWork {
  ModelSource source;
  uint32_t device = 0;
  bool sharded = false;    // the graph is one device's part of what `shard` has divided
  ir::Graph graph;         // from `import` to `fuse`
  PlannedProgram planned;  // from `fuse` to `emit`
  ScheduleReport schedule;
};

// One call of Compile on its way. Lives on its stack; single-threaded.
struct Compilation {
  explicit Compilation(const CompileOptions& o) : options(o) {}
  const CompileOptions& options;
  Targets targets;  // options.target
  std::vector<ProgramInWork> programs;
  // Names of options.shapes, options.break_before, and inputs of options.states, that some program has.
  std::vector<std::string> shapes_found, breaks_found, states_found;
  EmittedPlan emitted;  // from `emit` on
  EmitReport emit_report;
  CompileReport report;
};

// A pass is a function of this form, for one program (or once for all: then `program` is null). `text` gets
// what the report says of it.
using PassFunction = Status (*)(Compilation* compilation, ProgramInWork* program, std::string* text);

// What a pass leaves behind, for --dump-after.
enum class Leaves { kGraph, kLowered, kPlan };

struct PipelineEntry {
  const char* name;
  PassFunction run;
  Leaves leaves;
  bool once;         // for all programs together
  bool skippable;    // the plan is correct without it
  const char* does;  // its promise, one sentence
};

// The table.
Span<const PipelineEntry> Pipeline();

// Runs the table over the models of compilation->options. Errors are kInvalidArgument for options that name
// what is not there, else what the passes return, with program and pass put in front.
Status RunPipeline(Compilation* compilation);

}  // namespace rondo

#endif  // RONDO_COMPILER_PIPELINE_H_
