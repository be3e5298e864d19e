// The passes as the pipeline runs them. Each takes what it needs from the options, runs on one program (or
// once on all: then `program` is null), and returns its text for reports in `text`. pipeline.cc has the
// table.
#pragma once

#include <string>

#include "compiler/compilation.h"
#include "compiler/passes/passes.h"
#include "compiler/quantise/quantise.h"
#include "compiler/shard/candidates.h"
#include "core/status.h"

namespace rondo {

using PassFunction = Status (*)(Compilation* compilation, ProgramInWork* program, std::string* text);

// kInvalidArgument for a name in the options that no program has.
using NamesFunction = Status (*)(const Compilation& compilation);

namespace program_passes {

// A pass of compiler/passes, on the model's graph.
Status OnGraph(passes::PassFunction pass, Compilation* compilation, ProgramInWork* program,
               std::string* text);
// The same, and on the bodies of its loops.
Status OnGraphAndBodies(passes::PassFunction pass, Compilation* compilation, ProgramInWork* program,
                        std::string* text);

template <passes::PassFunction kPass>
Status Graph(Compilation* compilation, ProgramInWork* program, std::string* text) {
  return OnGraph(kPass, compilation, program, text);
}
template <passes::PassFunction kPass>
Status GraphAndBodies(Compilation* compilation, ProgramInWork* program, std::string* text) {
  return OnGraphAndBodies(kPass, compilation, program, text);
}

Status Import(Compilation* compilation, ProgramInWork* program, std::string* text);
Status LimitToCached(Compilation* compilation, ProgramInWork* program, std::string* text);
Status ShareCaches(Compilation* compilation, ProgramInWork* program, std::string* text);
Status PairState(Compilation* compilation, ProgramInWork* program, std::string* text);
Status AppendSampling(Compilation* compilation, ProgramInWork* program, std::string* text);
Status TokenLoop(Compilation* compilation, ProgramInWork* program, std::string* text);
// States for drawing tokens, and the drawn tokens, are whole on every device: adds their shardings to
// `states`.
void KeepSamplingWhole(const ir::Graph& graph, shard::StateShardings* states);
Status Shard(Compilation* compilation, ProgramInWork* program, std::string* text);
Status SplitReductions(Compilation* compilation, ProgramInWork* program, std::string* text);
Status CombineSmallCollectives(Compilation* compilation, ProgramInWork* program, std::string* text);
Status ChunkCollectives(Compilation* compilation, ProgramInWork* program, std::string* text);
Status AddVariants(Compilation* compilation, ProgramInWork* program, std::string* text);
Status KeepVariants(Compilation* compilation, ProgramInWork* program, std::string* text);
Status WeighFusions(Compilation* compilation, ProgramInWork* program, std::string* text);
// Lowers a program's graph to ordered ops, as a trial.
Status LowerOnTrial(Compilation* compilation, ProgramInWork* program);
Status FuseGraph(Compilation* compilation, ProgramInWork* program, std::string* text);
Status PickLibraries(Compilation* compilation, ProgramInWork* program, std::string* text);
Status Schedule(Compilation* compilation, ProgramInWork* program, std::string* text);
Status WriteOutLoops(Compilation* compilation, ProgramInWork* program, std::string* text);
Status PutOnStreams(Compilation* compilation, ProgramInWork* program, std::string* text);
Status KeepRegions(Compilation* compilation, ProgramInWork* program, std::string* text);
Status GatherAhead(Compilation* compilation, ProgramInWork* program, std::string* text);
// For a program on this many devices.
OverlapOptions OverlapOptionsFor(const Compilation& compilation, size_t devices);
Status Overlap(Compilation* compilation, ProgramInWork* program, std::string* text);
Status MakePartitions(Compilation* compilation, ProgramInWork* program, std::string* text);
Status LookForAnnotations(Compilation* compilation, ProgramInWork* program, std::string* text);
Status PlanArena(Compilation* compilation, ProgramInWork* program, std::string* text);
Status LayOutPanels(Compilation* compilation, ProgramInWork* program, std::string* text);
Status Emit(Compilation* compilation, ProgramInWork* program, std::string* text);
Status GenerateCode(Compilation* compilation, ProgramInWork* program, std::string* text);
Status Check(Compilation* compilation, ProgramInWork* program, std::string* text);

// In names_found.cc. WithUnknownShape: if an import fails because dims are open, the likely mistake is a name
// given to --shape that no model has. Returns that error, or else `status`.
Status WithUnknownShape(const Compilation& compilation, const Status& status);
Status ImportNamesWereFound(const Compilation& compilation);
Status DonationsWereFound(const Compilation& compilation);
Status LogitsWereFound(const Compilation& compilation);
Status BreaksWereFound(const Compilation& compilation);

}  // namespace program_passes
}  // namespace rondo
