#include "compiler/pipeline.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "compiler/bound_nodes.h"
#include "compiler/buckets.h"
#include "compiler/codegen/lowered_rules.h"
#include "compiler/schedule/streams.h"

namespace rondo {
namespace {

using namespace program_passes;

// ----------------------------------------------------------------------------------- the table

constexpr Runs kEach = Runs::kEachProgram, kOnce = Runs::kOnce;
constexpr Need kOptional = Need::kOptional, kNeeded = Need::kNeeded;
constexpr For kAny = For::kAny, kGpus = For::kGpus;

// The invariants of every graph, of graphs whose states are known, and of every lowered program.
constexpr Invariants kGraphs = kWellFormed | kTidy, kPaired = kGraphs | kStatesNamed;
constexpr Invariants kOps = kLowered | kOrdered, kSteps = kOps | kNoLoops | kTwoUnits | kTogether;

// Name and function; whether it runs once or per program, whether it may be skipped, and its targets; what it
// leaves, the invariants of that, and its promise.
constexpr PipelineEntry kPipeline[] = {
    {"import", Import, kEach, kNeeded, kAny, Leaves::kGraph, kWellFormed,
     "reads the ONNX model and decomposes its operators into the IR; shapes are static from here on",
     ImportNamesWereFound},
    {"lower_quantised", GraphAndBodies<passes::LowerQuantised>, kEach, kOptional, kAny, Leaves::kGraph,
     kGraphs,
     "matmuls of quantised numbers multiply their codes, 8-bit integers or FP8; scales and zero points "
     "follow the sums"},
    {"fold_constants", GraphAndBodies<passes::FoldConstants>, kEach, kOptional, kAny, Leaves::kGraph, kGraphs,
     "nodes that depend on small constants alone are constants; weights stay as they are"},
    {"fold_weight_scales", GraphAndBodies<passes::FoldWeightScales>, kEach, kOptional, kAny, Leaves::kGraph,
     kGraphs, "what multiplies a packed weight, by rows and blocks of it, is part of its scales"},
    {"eliminate_common_subexpressions", GraphAndBodies<passes::EliminateCommonSubexpressions>, kEach,
     kOptional, kAny, Leaves::kGraph, kGraphs, "of equal nodes with equal annotations one is left"},
    {"remove_dead", GraphAndBodies<passes::RemoveDead>, kEach, kOptional, kAny, Leaves::kGraph, kGraphs,
     "every node is needed by an output or an effect"},
    {"simplify", GraphAndBodies<passes::Simplify>, kEach, kOptional, kAny, Leaves::kGraph, kGraphs,
     "no node is an identity; cheap forms stand for expensive ones where the result rounds the same or "
     "better"},
    {"share_caches", ShareCaches, kOnce, kNeeded, kAny, Leaves::kGraph, kGraphs,
     "a cache that one program begins and another reads is an input and an output of both"},
    {"pair_state", PairState, kEach, kNeeded, kAny, Leaves::kGraph, kGraphs | kStatesNamed,
     "inputs and outputs that are one persistent buffer are known as such", DonationsWereFound},
    {"append_sampling", AppendSampling, kEach, kNeeded, kAny, Leaves::kGraph, kPaired,
     "with --sample: the next token is drawn from the logits, and stays on the device", LogitsWereFound},
    {"recognise_concat", GraphAndBodies<passes::RecogniseConcat>, kEach, kOptional, kAny, Leaves::kGraph,
     kPaired, "a concatenation of evenly spaced pieces of one tensor is a view of it"},
    {"recognise_updates", GraphAndBodies<passes::RecogniseUpdates>, kEach, kOptional, kAny, Leaves::kGraph,
     kPaired, "state changes by writes in place, wherever the composed index maps allow"},
    {"recognise_attention", GraphAndBodies<passes::RecogniseAttention>, kEach, kOptional, kAny,
     Leaves::kGraph, kPaired, "softmax of a scaled, masked matmul times values is one attention node"},
    {"recognise_causal", GraphAndBodies<passes::RecogniseCausal>, kEach, kOptional, kAny, Leaves::kGraph,
     kPaired,
     "a mask that keeps a prefix of the keys is a limit: attention reads only the positions it needs"},
    {"limit_to_cached", LimitToCached, kEach, kNeeded, kAny, Leaves::kGraph, kPaired,
     "with --cache-length: attention reads the positions that are cached, and nothing else mixes those of a "
     "cache"},
    {"decompose_sinks", GraphAndBodies<passes::DecomposeSinks>, kEach, kNeeded, kAny, Leaves::kGraph, kPaired,
     "attention with a sink, which no kernel supports, is matmuls and a softmax again"},
    {"split_matmuls", GraphAndBodies<passes::SplitMatmuls>, kEach, kOptional, kAny, Leaves::kGraph, kPaired,
     "a matmul whose readers take disjoint columns is one matmul for each of them"},
    {"clean_up", GraphAndBodies<passes::CleanUp>, kEach, kOptional, kAny, Leaves::kGraph, kPaired,
     "what recognition left behind is folded, simplified and shared"},
    {"token_loop", TokenLoop, kEach, kNeeded, kAny, Leaves::kGraph, kPaired,
     "with --token-loop: a run draws several tokens of each text, each from the one before"},
    {"keep_quantised", GraphAndBodies<passes::KeepQuantised>, kEach, kOptional, kAny, Leaves::kGraph, kPaired,
     "a tensor that is quantised twice in the same way is not scaled in between"},
    {"quantize_weights", GraphAndBodies<passes::QuantizeWeights>, kEach, kNeeded, kAny, Leaves::kGraph,
     kPaired,
     "with --quantize-weights: weights of matmuls are of so few bits, and the report says what that changed"},
    {"shard", Shard, kOnce, kNeeded, kAny, Leaves::kGraph, kPaired,
     "with --tp or --pp N: each device holds its share of weights and state, and collectives say what is "
     "exchanged"},
    {"label", GraphAndBodies<passes::Label>, kEach, kOptional, kAny, Leaves::kGraph, kPaired,
     "norms, softmax, rotary embeddings and gated activations say what they are"},
    {"lower_precision", GraphAndBodies<passes::LowerPrecision>, kEach, kNeeded, kAny, Leaves::kGraph, kPaired,
     "with --precision f16 or bf16: matmuls, and what kernels keep in memory, are of that type"},
    {"pack_weights", GraphAndBodies<passes::PackWeights>, kEach, kNeeded, kAny, Leaves::kGraph, kPaired,
     "matmuls read weights of fewer bits as they are, where the target has kernels for that; other readers "
     "have them unpacked in each run"},
    {"simplify_windows", Graph<passes::SimplifyWindows>, kEach, kOptional, kAny, Leaves::kGraph, kPaired,
     "pools of one window are reductions; for GPUs, convolutions that are matmuls are matmuls"},
    {"fold_score_bias", GraphAndBodies<passes::FoldScoreBias>, kEach, kOptional, kGpus, Leaves::kGraph,
     kPaired,
     "a bias of scores by rows and columns of an image (relative positions) is features of queries and keys"},
    {"split_values", GraphAndBodies<passes::SplitValues>, kEach, kOptional, kGpus, Leaves::kGraph, kPaired,
     "attention has at most as many features of a value as its kernels support"},
    {"sum_in_integers", GraphAndBodies<passes::SumInIntegers>, kEach, kOptional, kGpus, Leaves::kGraph,
     kPaired, "scatters that add many floats add integers: any order gives the same bits"},
    {"pad_masks", GraphAndBodies<passes::PadMasks>, kEach, kOptional, kGpus, Leaves::kGraph, kPaired,
     "attention reads masks whose rows are no whole vectors from padded ones"},
    {"pad_channels", Graph<passes::PadChannels>, kEach, kOptional, kGpus, Leaves::kGraph, kPaired,
     "convolutions of channels that are no vectors read a copy of four or a multiple of eight"},
    {"pad_matmuls", GraphAndBodies<passes::PadMatmuls>, kEach, kOptional, kGpus, Leaves::kGraph, kPaired,
     "16-bit matmuls read constants column after column, and lines that are padded to a multiple of eight"},
    {"order_convolution_weights", Graph<passes::OrderConvolutionWeights>, kEach, kOptional, kAny,
     Leaves::kGraph, kPaired,
     "weights of convolutions lie as the target reads them: output channels last, or input channels"},
    {"fuse_quant_range", GraphAndBodies<passes::FuseQuantRange>, kEach, kOptional, kGpus, Leaves::kGraph,
     kPaired, "the kernel that quantises a tensor finds its range, or the kernel before it does"},
    {"split_reductions", SplitReductions, kEach, kOptional, kGpus, Leaves::kGraph, kPaired,
     "reductions over few long rows, or over rows whose elements lie apart, are over slices of them first"},
    {"rematerialise", GraphAndBodies<passes::Rematerialise>, kEach, kOptional, kGpus, Leaves::kGraph, kPaired,
     "readers recompute small, cheap values, which then need no kernels of their own"},
    {"combine_collectives", CombineSmallCollectives, kOnce, kOptional, kAny, Leaves::kGraph, kPaired,
     "small collectives of one kind that do not depend on one another are one, where the estimate says that "
     "the run ends earlier"},
    {"chunk_collectives", ChunkCollectives, kOnce, kOptional, kAny, Leaves::kGraph, kPaired,
     "collectives and the work row by row around them are cut into chunks of rows, where the estimate says "
     "that the run ends earlier"},
    {"variants", AddVariants, kOnce, kOptional, kAny, Leaves::kGraph, kPaired,
     "with --variants: each program has a second one, whose rows are cut into chunks where that keeps less "
     "alive at once"},
    {"weigh_fusions", WeighFusions, kOnce, kOptional, kAny, Leaves::kGraph, kPaired,
     "where the run then ends earlier, or takes less memory in hardly more time, work that waits for a "
     "collective or keeps its inputs alive is in no kernel of other work"},
    {"fuse", FuseGraph, kEach, kNeeded, kAny, Leaves::kLowered, kOps,
     "turns the graph into kernels; every node is computed inside exactly one part"},
    {"choose_libraries", PickLibraries, kEach, kOptional, kGpus, Leaves::kLowered, kOps,
     "matmuls that a vendor library computes best have scratch memory and an epilogue it knows"},
    {"schedule", Schedule, kEach, kOptional, kAny, Leaves::kLowered, kOps,
     "orders the kernels for the least peak of live bytes; dependences hold"},
    {"expand_loops", WriteOutLoops, kEach, kNeeded, kAny, Leaves::kLowered, kOps | kNoLoops,
     "loops are the ops of their rounds, of which one or two copies repeat; values that rounds pass on have "
     "their places"},
    {"streams", PutOnStreams, kEach, kOptional, kAny, Leaves::kLowered, kOps | kNoLoops,
     "steps are on the streams that annotations say; what must be ordered between streams is by dependences"},
    {"keep_together", KeepRegions, kEach, kNeeded, kAny, Leaves::kLowered, kOps | kNoLoops | kTogether,
     "steps that annotations keep together are consecutive"},
    {"gather_weights", GatherAhead, kOnce, kNeeded, kAny, Leaves::kLowered, kSteps,
     "with --weights gather: each weight is brought together just before its use, small ones of a layer by "
     "one collective, two layers' worth at once"},
    {"store_panels", LayOutPanels, kOnce, kOptional, kAny, Leaves::kLowered, kSteps,
     "on a host, weights lie in the order in which register blocks of matmuls and convolutions read them"},
    {"overlap", Overlap, kOnce, kOptional, kAny, Leaves::kLowered, kSteps,
     "collectives start as early and are waited for as late as shortens the run on all devices, with compute "
     "in between; they keep their order, and the arena its budget"},
    {"partition", MakePartitions, kEach, kNeeded, kAny, Leaves::kLowered, kSteps | kPartitioned,
     "cuts the steps into the fewest runs that replay as one graph, each cut with its reason",
     BreaksWereFound},
    {"annotations", LookForAnnotations, kOnce, kNeeded, kAny, Leaves::kLowered, kSteps | kPartitioned,
     "every annotation is seen in the steps of its nodes, or the compile says what became of them"},
    {"memory", PlanArena, kEach, kNeeded, kAny, Leaves::kLowered, kSteps | kPartitioned | kPlaced,
     "gives every value its place in the arena; what lives at once does not overlap"},
    {"keep_variants", KeepVariants, kOnce, kOptional, kAny, Leaves::kLowered, kSteps | kPartitioned | kPlaced,
     "variants whose arena is not smaller than their program's are dropped"},
    {"emit", Emit, kOnce, kNeeded, kAny, Leaves::kPlan, kVerified,
     "makes one plan of all programs; weights, state and kernels that are equal are shared"},
    {"codegen", GenerateCode, kOnce, kNeeded, kGpus, Leaves::kPlan, kVerified,
     "every kernel has machine code for each architecture of the targets that are GPUs"},
    {"check", Check, kOnce, kNeeded, kAny, Leaves::kPlan, kVerified,
     "proves the plan with the verifier, the independent checker and the check of machine code; what cannot "
     "be proven is not written"},
};

// ------------------------------------------------------------------------------------- running

constexpr uint32_t kMaxDevices = 64;

const PipelineEntry* FindPass(std::string_view name) {
  for (const PipelineEntry& entry : kPipeline) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

std::string KnownPasses(bool skippable_only) {
  std::string names;
  for (const PipelineEntry& entry : kPipeline) {
    if (skippable_only && !entry.skippable()) continue;
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

// "--tp 2", "--pp 2", "--tp 2 --pp 2"
std::string SharingText(const CompileOptions& options) {
  std::string text;
  if (options.tensor_parallel > 1) text = "--tp " + std::to_string(options.tensor_parallel);
  if (options.pipeline_parallel > 1)
    text += (text.empty() ? "--pp " : " --pp ") + std::to_string(options.pipeline_parallel);
  return text;
}

Status CheckDevices(const CompileOptions& options) {
  if (options.devices > kMaxDevices) {
    return Status::Error(Code::kInvalidArgument, "%u devices; a plan is for at most %u", options.devices,
                         kMaxDevices);
  }
  const uint64_t sharded =
      uint64_t{std::max(options.tensor_parallel, 1u)} * uint64_t{std::max(options.pipeline_parallel, 1u)};
  if (sharded > kMaxDevices) {
    return Status::Error(Code::kInvalidArgument, "%llu devices; a plan is for at most %u",
                         static_cast<unsigned long long>(sharded), kMaxDevices);
  }
  if (options.weights == Weights::kGather && options.tensor_parallel < 2) {
    return Status::Error(Code::kInvalidArgument,
                         "weights are gathered from the devices that share them: give --weights gather with "
                         "--tp N, 2 or more");
  }
  if (sharded > 1 && options.devices > 0) {
    return Status::Error(Code::kInvalidArgument,
                         "%s shares a whole model out, --devices %u is for models that say themselves what "
                         "each device does: give one of them",
                         SharingText(options).c_str(), options.devices);
  }
  return Status::Ok();
}

Status CheckDonations(const CompileOptions& options) {
  if (options.donations.empty() || (options.devices < 2 && SharingText(options).empty())) return Status::Ok();
  return Status::Error(
      Code::kUnsupported,
      "donated input \"%s\": a plan for several devices copies its inputs to each of them, and "
      "takes over none",
      options.donations[0].c_str());
}

Status CheckModels(const CompileOptions& options) {
  std::set<std::string> names;
  for (const ModelSource& model : options.models) {
    if (!SharingText(options).empty() && ModelPathOn(model.path, 0) != model.path) {
      return Status::Error(Code::kInvalidArgument,
                           "%s shares a whole model out, but \"%s\" names a file for each device: give "
                           "--devices N",
                           SharingText(options).c_str(), model.path.c_str());
    }
    if (!names.insert(model.program).second) {
      return Status::Error(Code::kInvalidArgument, "two programs are called \"%s\"", model.program.c_str());
    }
  }
  return Status::Ok();
}

Status CheckAnnotations(const CompileOptions& options) {
  for (const NodeAnnotation& a : options.annotations) {
    if (NamesRegions(a.node) && (IsOrder(a.key) || a.key == "keep" || a.key == kRegionKey))
      return Status::Error(Code::kInvalidArgument,
                           "annotation %.50s of \"%s\": name the nodes that it is of, not a region",
                           a.key.c_str(), a.node.c_str());
    const std::string why = WhyNoAnnotation(a.key, a.value);
    if (why.empty()) continue;
    return Status::Error(Code::kInvalidArgument, "annotation %.50s: %.50s of node \"%s\" is %s",
                         a.key.c_str(), a.value.c_str(), a.node.c_str(), why.c_str());
  }
  return Status::Ok();
}

Status CheckPassNames(const CompileOptions& options) {
  for (const std::string& name : options.dump_after) {
    if (FindPass(name) != nullptr) continue;
    return Status::Error(Code::kInvalidArgument, "there is no pass \"%s\"; passes: %s", name.c_str(),
                         KnownPasses(false).c_str());
  }
  for (const std::string& name : options.skip_passes) {
    const PipelineEntry* entry = FindPass(name);
    if (entry != nullptr && entry->skippable()) continue;
    return Status::Error(Code::kInvalidArgument, "pass \"%s\" cannot be skipped; these can: %s", name.c_str(),
                         KnownPasses(true).c_str());
  }
  return Status::Ok();
}

Status CheckOptions(const CompileOptions& options) {
  if (options.models.empty()) return Status::Error(Code::kInvalidArgument, "no model is given");
  if (options.deterministic && options.matmuls == Matmuls::kLibrary) {
    return Status::Error(
        Code::kInvalidArgument,
        "deterministic results need generated matmuls: another version of a library may choose "
        "another algorithm");
  }
  if (options.weights_file.find('/') != std::string::npos) {
    return Status::Error(Code::kInvalidArgument, "weights file \"%s\" must be a name without a folder",
                         options.weights_file.c_str());
  }
  if (!(options.overlap_budget >= 0 && options.overlap_budget <= 100)) {
    return Status::Error(Code::kInvalidArgument, "an overlap budget of %g; it is 0 to 100 times the arena",
                         options.overlap_budget);
  }
  RONDO_RETURN_IF_ERROR(CheckDevices(options));
  RONDO_RETURN_IF_ERROR(CheckModels(options));
  RONDO_RETURN_IF_ERROR(CheckDonations(options));
  RONDO_RETURN_IF_ERROR(CheckAnnotations(options));
  return CheckPassNames(options);
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The program after a pass that leaves `leaves`.
std::string DumpOf(const ProgramInWork& program, Leaves leaves) {
  return leaves == Leaves::kGraph ? ir::Dump(program.graph) : Dump(program.planned.lowered);
}

// Runs the pass: progress before, report and dump after.
Status RunAndReport(const PipelineEntry& entry, Compilation* compilation, ProgramInWork* program) {
  const CompileOptions& options = compilation->options;
  const std::string name = program == nullptr ? "" : NameOf(options, *program);
  if (options.progress) options.progress(name, entry.name);
  const auto start = std::chrono::steady_clock::now();
  PassReport report;
  report.program = name;
  report.pass = entry.name;
  const Status status = RunPass(entry, compilation, program, &report.text);
  report.seconds = SecondsSince(start);
  compilation->report.passes.push_back(std::move(report));
  if (!status.ok()) {
    return program == nullptr ? status.At("%s", entry.name)
                              : status.At("program \"%s\": %s", name.c_str(), entry.name);
  }
  if (!options.dump || !Contains(options.dump_after, entry.name)) return Status::Ok();
  if (program != nullptr) options.dump(name, entry.name, DumpOf(*program, entry.leaves));
  if (program == nullptr && entry.leaves != Leaves::kPlan) {
    for (const ProgramInWork& each : compilation->programs)
      options.dump(NameOf(options, each), entry.name, DumpOf(each, entry.leaves));
  }
  return Status::Ok();
}

Status RunEntry(const PipelineEntry& entry, Compilation* compilation) {
  if (entry.once()) {
    RONDO_RETURN_IF_ERROR(RunAndReport(entry, compilation, nullptr));
  } else {
    for (ProgramInWork& program : compilation->programs)
      RONDO_RETURN_IF_ERROR(RunAndReport(entry, compilation, &program));
  }
  return entry.names == nullptr ? Status::Ok() : entry.names(*compilation);
}

}  // namespace

Span<const PipelineEntry> Pipeline() { return kPipeline; }

Status RunPass(const PipelineEntry& entry, Compilation* compilation, ProgramInWork* program,
               std::string* text) {
  const CompileOptions& options = compilation->options;
  if (entry.IsFor(options.targets)) {
    RONDO_RETURN_IF_ERROR(entry.run(compilation, program, text));
  } else {
    *text = "for GPUs";
  }
  if (entry.leaves == Leaves::kGraph) {
    for (ProgramInWork& each : compilation->programs) {
      if (program == nullptr || program == &each) FollowBoundNodes(entry.name, &each);
    }
  }
  if (program != nullptr || entry.leaves == Leaves::kPlan)
    return CheckInvariants(entry.holds, options.check_passes, *compilation, program);
  for (const ProgramInWork& each : compilation->programs) {
    RONDO_RETURN_IF_ERROR(CheckInvariants(entry.holds, options.check_passes, *compilation, &each)
                              .At("program \"%s\"", NameOf(options, each).c_str()));
  }
  return Status::Ok();
}

Status RunPipeline(Compilation* compilation) {
  const auto start = std::chrono::steady_clock::now();
  RONDO_RETURN_IF_ERROR(CheckOptions(compilation->options));
  RONDO_ASSIGN_OR_RETURN(const std::vector<ModelSource> models, WithBuckets(compilation->options));
  for (const ModelSource& model : models) {
    for (uint32_t device = 0; device < std::max(compilation->options.devices, 1u); ++device) {
      compilation->programs.emplace_back();
      compilation->programs.back().source = model;
      compilation->programs.back().device = device;
    }
  }
  for (const PipelineEntry& entry : kPipeline) {
    if (Contains(compilation->options.skip_passes, entry.name)) continue;
    RONDO_RETURN_IF_ERROR(RunEntry(entry, compilation));
  }
  compilation->report.seconds = SecondsSince(start);
  return Status::Ok();
}

}  // namespace rondo
