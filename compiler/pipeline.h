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
// The deciding target (Targets::deciding) that the pass needs in order to run.
enum class For : uint8_t { kAny, kGpus };

struct PipelineEntry {
  const char* name;
  PassFunction run;
  Runs runs;
  Need need;
  For targets;
  Leaves leaves;
  Invariants holds;          // what holds afterwards, also if the pass did not run because of its targets
  const char* does;          // its promise, one sentence
  NamesFunction names = {};  // run after all programs have passed, whether or not the pass found anything

  bool once() const { return runs == Runs::kOnce; }
  bool skippable() const { return need == Need::kOptional; }
  bool IsFor(const Targets& t) const { return targets == For::kAny || t.any_gpu(); }
};

// The table.
Span<const PipelineEntry> Pipeline();

// Runs one pass on `program`, or on all programs if it runs once (then `program` is null), and checks what
// must hold after it: everything with options.check_passes, otherwise the cheap checks. `text` gets the text
// for reports.
Status RunPass(const PipelineEntry& entry, Compilation* compilation, ProgramInWork* program,
               std::string* text);

// Runs the table over the models of compilation->options. Errors are kInvalidArgument for options with
// unknown names, otherwise those of the passes, prefixed with program and pass.
Status RunPipeline(Compilation* compilation);

}  // namespace rondo
