// The pipeline: every pass of the compiler, in order, in one table (pipeline.cc). Start reading there.
#pragma once

#include <string>

#include "compiler/compilation.h"
#include "compiler/invariants.h"
#include "compiler/program_passes.h"
#include "core/span.h"
#include "core/status.h"

namespace rondo {

// What a pass leaves behind, for --dump-after.
enum class Leaves : uint8_t { kGraph, kLowered, kPlan };
// A pass runs on each program by itself, or once on all together.
enum class Runs : uint8_t { kEachProgram, kOnce };
// Whether --skip-pass may leave it out: the plan is correct without it.
enum class Need : uint8_t { kOptional, kNeeded };
// What the deciding target (Targets::deciding) must be for the pass to run.
enum class For : uint8_t { kAny, kGpus };

struct PipelineEntry {
  const char* name;
  PassFunction run;
  Runs runs;
  Need need;
  For targets;
  Leaves leaves;
  Invariants holds;          // of what it leaves, whether it ran or its targets are others
  const char* does;          // its promise, one sentence
  NamesFunction names = {};  // run once every program is through, whether or not the pass found something

  bool once() const { return runs == Runs::kOnce; }
  bool skippable() const { return need == Need::kOptional; }
  bool IsFor(const Targets& t) const { return targets == For::kAny || t.any_gpu(); }
};

// The table.
Span<const PipelineEntry> Pipeline();

// Runs one pass, on `program` or, if it runs once, on all (then `program` is null), and checks what holds
// after it: everything with options.check_passes, else what costs little. `text` gets what reports say of it.
Status RunPass(const PipelineEntry& entry, Compilation* compilation, ProgramInWork* program,
               std::string* text);

// Runs the table over the models of compilation->options. Errors are kInvalidArgument for options that name
// what is not there, else what the passes return, with program and pass put in front.
Status RunPipeline(Compilation* compilation);

}  // namespace rondo
