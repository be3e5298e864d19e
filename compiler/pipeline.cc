#include "compiler/pipeline.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "compiler/codegen/cuda/add_modules.h"
#include "compiler/codegen/cuda/choose_libraries.h"
#include "compiler/codegen/lowered_rules.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/loop.h"
#include "compiler/model_shapes.h"
#include "compiler/passes/passes.h"
#include "compiler/schedule/expand_loops.h"
#include "compiler/shard/shard_graph.h"
#include "formats/machine_code/image_check.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"

namespace rondo {
namespace {

// ------------------------------------------------------------------------- one function a pass

constexpr uint32_t kMaxDevices = 64;

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What reports call the program of a device.
std::string NameOf(const CompileOptions& options, const ProgramInWork& program) {
  const std::string& name = program.source.program;
  return options.devices > 1 || program.sharded ? name + "@" + std::to_string(program.device) : name;
}

// The shapes given for one program, and for all.
Status ShapesOf(const ModelSource& source, const onnx::Model& model, Compilation* compilation,
                ImportOptions* import) {
  std::map<std::string, std::vector<int64_t>> shapes = source.shapes;
  shapes.insert(compilation->options.shapes.begin(), compilation->options.shapes.end());
  std::vector<std::string> found;
  RONDO_RETURN_IF_ERROR(SplitShapes(model, shapes, import, &found));
  for (const auto& [name, dims] : source.shapes) {
    if (Contains(found, name)) continue;
    return Status::Error(Code::kInvalidArgument,
                         "shape \"%s\": the model has no input or symbolic dimension of that name",
                         name.c_str());
  }
  compilation->shapes_found.insert(compilation->shapes_found.end(), found.begin(), found.end());
  return Status::Ok();
}

Status Import(Compilation* compilation, ProgramInWork* program, std::string* text) {
  const CompileOptions& options = compilation->options;
  RONDO_ASSIGN_OR_RETURN(std::shared_ptr<onnx::Model> model,
                         onnx::Model::Open(ModelPathOn(program->source.path, program->device)));
  ImportOptions import;
  import.devices = options.devices;
  import.rank = program->device;
  RONDO_RETURN_IF_ERROR(ShapesOf(program->source, *model, compilation, &import));
  import.ops = options.ops;
  if (compilation->targets.gpu() != nullptr) import.calls_outside_graphs = "it runs on the host";
  import.longest_unrolled = options.longest_unrolled;
  import.allow_synthetic = options.synthetic_seed.has_value();
  import.synthetic_seed = options.synthetic_seed.value_or(0);
  ImportReport report;
  RONDO_ASSIGN_OR_RETURN(program->graph, ImportModel(model, import, &report));
  program->graph.name = program->source.program;
  *text = std::to_string(report.onnx_nodes) + " ONNX nodes -> " + std::to_string(program->graph.size()) +
          " nodes, " + std::to_string(report.synthetic.size()) + " synthetic weights";
  return Status::Ok();
}

// The passes from graph to graph, all of one form.
template <passes::PassFunction kPass>
Status OnGraph(Compilation*, ProgramInWork* program, std::string* text) {
  const passes::PassOptions options;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, kPass(&program->graph, options));
  *text = std::move(result.text);
  return ir::ForEachBody(&program->graph, [&](ir::Graph* body) { return kPass(body, options).status(); });
}

// Of the pairs given by name, those that this model has one name of: the other must be there as well.
Status PairState(Compilation* compilation, ProgramInWork* program, std::string* text) {
  passes::PassOptions options;
  options.auto_state = compilation->options.auto_state;
  for (const StateName& state : compilation->options.states) {
    const auto& inputs = program->graph.inputs;
    const auto& outputs = program->graph.outputs;
    if (std::any_of(inputs.begin(), inputs.end(), [&](const auto& i) { return i.name == state.input; }) ||
        std::any_of(outputs.begin(), outputs.end(), [&](const auto& o) { return o.name == state.output; })) {
      options.states.emplace_back(state.input, state.output);
      compilation->states_found.push_back(state.input);
    }
  }
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::PairState(&program->graph, options));
  *text = std::move(result.text);
  return Status::Ok();
}

// One program a device in place of each.
Status Shard(Compilation* compilation, ProgramInWork*, std::string* text) {
  const uint32_t devices = compilation->options.tensor_parallel;
  if (devices <= 1) {
    *text = "one device runs what the model says";
    return Status::Ok();
  }
  std::vector<ProgramInWork> programs;
  shard::StateForms states;
  for (ProgramInWork& program : compilation->programs) {
    shard::ShardedGraph sharded;
    RONDO_RETURN_IF_ERROR(shard::ShardGraph(std::move(program.graph), devices, &states, &sharded)
                              .At("program \"%s\"", program.source.program.c_str()));
    *text += (text->empty() ? "" : "\n") + program.source.program + ": " + sharded.text;
    for (uint32_t device = 0; device < devices; ++device) {
      programs.emplace_back();
      programs.back().source = program.source;
      programs.back().device = device;
      programs.back().sharded = true;
      programs.back().graph = std::move(sharded.ranks[device]);
      const std::string broken = ir::Validate(programs.back().graph);
      if (!broken.empty()) return Status::Error(Code::kInternal, "device %u: %s", device, broken.c_str());
    }
  }
  compilation->programs = std::move(programs);
  return Status::Ok();
}

Status LowerPrecision(Compilation* compilation, ProgramInWork* program, std::string* text) {
  const Precision precision = compilation->options.precision;
  passes::PassOptions options;
  if (precision == Precision::kF16) options.precision = DType::kF16;
  if (precision == Precision::kBF16) options.precision = DType::kBF16;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::LowerPrecision(&program->graph, options));
  *text = std::move(result.text);
  return ir::ForEachBody(&program->graph,
                         [&](ir::Graph* body) { return passes::LowerPrecision(body, options).status(); });
}

Status SimplifyWindows(Compilation* compilation, ProgramInWork* program, std::string* text) {
  passes::PassOptions options;
  options.channels_last = compilation->targets.gpu() != nullptr;
  options.host = !options.channels_last;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::SimplifyWindows(&program->graph, options));
  *text = std::move(result.text);
  return Status::Ok();
}

Status PadFewChannels(Compilation* compilation, ProgramInWork* program, std::string* text) {
  passes::PassOptions options;
  options.channels_last = compilation->targets.gpu() != nullptr;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::PadFewChannels(&program->graph, options));
  *text = std::move(result.text);
  return Status::Ok();
}

Status OrderWeights(Compilation* compilation, ProgramInWork* program, std::string* text) {
  passes::PassOptions options;
  options.host = compilation->targets.gpu() == nullptr;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result,
                         passes::OrderConvolutionWeights(&program->graph, options));
  *text = std::move(result.text);
  return Status::Ok();
}

Status FuseGraph(Compilation* compilation, ProgramInWork* program, std::string* text) {
  FuseOptions options;
  options.target = compilation->options.target;
  if (options.target != "host") options.longest_kept_row = 1024;
  options.tf32 = compilation->options.precision == Precision::kTf32;
  FuseReport report;
  RONDO_ASSIGN_OR_RETURN(program->planned.lowered, Fuse(std::move(program->graph), options, &report));
  program->planned.lowered.name = program->source.program;
  program->planned.device = program->device;
  program->graph = ir::Graph();
  *text = report.text;
  const std::string broken = LoweredRulesBroken(program->planned.lowered);
  if (!broken.empty()) return Status::Error(Code::kInternal, "%s", broken.c_str());
  return Status::Ok();
}

Status PickLibraries(Compilation* compilation, ProgramInWork* program, std::string* text) {
  const CompileOptions& options = compilation->options;
  const std::string* gpu = compilation->targets.gpu();
  if (gpu == nullptr) {
    *text = "the host driver has its own";
    return Status::Ok();
  }
  if (options.deterministic) {
    *text = "all products are generated: a library's algorithms are up to its version";
    return Status::Ok();
  }
  LibraryOptions libraries;
  libraries.products = options.products;
  if (options.profile.architecture == *gpu)
    libraries.configuration = [&](const Kernel& kernel) { return options.profile.Of(kernel); };
  return ChooseLibraries(&program->planned.lowered, TargetOf(*gpu), libraries, text);
}

Status Schedule(Compilation*, ProgramInWork* program, std::string* text) {
  program->schedule = ScheduleForLeastMemory(&program->planned.lowered);
  *text = program->schedule.text;
  return Status::Ok();
}

Status WriteOutLoops(Compilation*, ProgramInWork* program, std::string* text) {
  *text = ExpandLoops(&program->planned.lowered);
  return Status::Ok();
}

Status MakePartitions(Compilation* compilation, ProgramInWork* program, std::string* text) {
  LoweredProgram* lowered = &program->planned.lowered;
  const auto& breaks = compilation->options.break_before;
  std::vector<SeamStep> steps = SeamSteps(*lowered, breaks, &compilation->breaks_found);
  if (CloseCollectives(steps, lowered)) {
    steps = SeamSteps(*lowered, breaks, &compilation->breaks_found);
  }
  program->planned.partitions = PartitionSteps(steps);
  *text = std::to_string(program->planned.lowered.ops.size()) + " steps in " +
          std::to_string(program->planned.partitions.size()) + " partitions";
  for (const PlannedPartition& partition : program->planned.partitions) *text += "\n" + partition.detail;
  return Status::Ok();
}

Status PlanArena(Compilation*, ProgramInWork* program, std::string* text) {
  program->planned.memory = PlanMemory(program->planned.lowered);
  *text = program->planned.memory.text;
  return Status::Ok();
}

Status Emit(Compilation* compilation, ProgramInWork*, std::string* text) {
  std::vector<PlannedProgram> planned;
  for (ProgramInWork& program : compilation->programs) planned.push_back(std::move(program.planned));
  EmitOptions options;
  options.target = compilation->options.target;
  options.weights_file = compilation->options.weights_file;
  RONDO_ASSIGN_OR_RETURN(compilation->emitted,
                         EmitPlan(std::move(planned), options, &compilation->emit_report));
  *text = compilation->emit_report.text;
  return Status::Ok();
}

Status GenerateCode(Compilation* compilation, ProgramInWork*, std::string* text) {
  const CompileOptions& options = compilation->options;
  if (compilation->targets.gpus.empty()) {
    *text = "the host driver runs kernels as they are";
    return Status::Ok();
  }
  ModuleOptions modules;
  modules.units.library_path = options.library_path;
  modules.units.cache_folder = options.kernel_cache;
  modules.units.threads = static_cast<unsigned>(std::max(0, options.threads));
  modules.profile = options.profile;
  modules.alternatives = options.alternatives;
  modules.library_alternatives = !options.deterministic;
  for (const std::string& architecture : compilation->targets.gpus) {
    ProfileUse use;
    modules.units.architecture = architecture;
    std::string report;
    RONDO_RETURN_IF_ERROR(
        AddCudaModules(&compilation->emitted, modules, &report, &use).At("%s", architecture.c_str()));
    *text += (text->empty() ? "" : "\n") + report;
    // What became of a profile, the module of its architecture says, or else the first.
    const bool first = compilation->emitted.plan.modules.size() == 1;
    if (first || architecture == options.profile.architecture) compilation->report.profile = use;
  }
  return Status::Ok();
}

Status Check(Compilation* compilation, ProgramInWork*, std::string* text) {
  RONDO_RETURN_IF_ERROR(VerifyPlan(compilation->emitted.plan));
  RONDO_RETURN_IF_ERROR(CheckPlan(compilation->emitted.plan));
  for (const CodeModule& module : compilation->emitted.plan.modules)
    RONDO_RETURN_IF_ERROR(CheckImages(compilation->emitted.plan, module, true));
  *text = "verified and checked";
  return Status::Ok();
}

// ----------------------------------------------------------------------------------- the table

constexpr bool kOnce = true, kEach = false;
constexpr bool kSkippable = true, kNeeded = false;

constexpr PipelineEntry kPipeline[] = {
    {"import", Import, Leaves::kGraph, kEach, kNeeded,
     "reads the ONNX model and decomposes its operators into the IR; shapes are static from here on"},
    {"fold_constants", OnGraph<passes::FoldConstants>, Leaves::kGraph, kEach, kSkippable,
     "nodes that depend on small constants alone are constants; weights stay as they are"},
    {"eliminate_common_subexpressions", OnGraph<passes::EliminateCommonSubexpressions>, Leaves::kGraph, kEach,
     kSkippable, "of equal nodes with equal annotations one is left"},
    {"remove_dead", OnGraph<passes::RemoveDead>, Leaves::kGraph, kEach, kSkippable,
     "every node is needed by an output or an effect"},
    {"simplify", OnGraph<passes::Simplify>, Leaves::kGraph, kEach, kSkippable,
     "no node is an identity; cheap forms stand for dear ones where the result rounds the same or better"},
    {"pair_state", PairState, Leaves::kGraph, kEach, kNeeded,
     "inputs and outputs that are one persistent buffer are known as such"},
    {"recognise_concat", OnGraph<passes::RecogniseConcat>, Leaves::kGraph, kEach, kSkippable,
     "a concatenation of evenly spaced pieces of one tensor is a view of it"},
    {"recognise_updates", OnGraph<passes::RecogniseUpdates>, Leaves::kGraph, kEach, kSkippable,
     "state changes by writes in place, wherever the composed index maps allow"},
    {"recognise_attention", OnGraph<passes::RecogniseAttention>, Leaves::kGraph, kEach, kSkippable,
     "softmax of a scaled, masked product times values is one attention node"},
    {"recognise_causal", OnGraph<passes::RecogniseCausal>, Leaves::kGraph, kEach, kSkippable,
     "a mask that keeps a prefix of the keys is a limit: attention reads only the positions it needs"},
    {"split_contractions", OnGraph<passes::SplitContractions>, Leaves::kGraph, kEach, kSkippable,
     "a product whose readers take disjoint columns is one product for each of them"},
    {"clean_up", OnGraph<passes::CleanUp>, Leaves::kGraph, kEach, kSkippable,
     "what recognition left behind is folded, simplified and shared"},
    {"shard", Shard, Leaves::kGraph, kOnce, kNeeded,
     "with --tp N: each device holds its share of weights and state, and collectives say what is exchanged"},
    {"label", OnGraph<passes::Label>, Leaves::kGraph, kEach, kSkippable,
     "norms, softmax, rotary embeddings and gated activations say what they are"},
    {"lower_precision", LowerPrecision, Leaves::kGraph, kEach, kNeeded,
     "with --precision f16 or bf16: products, and what kernels keep in memory, are of that type"},
    {"simplify_windows", SimplifyWindows, Leaves::kGraph, kEach, kSkippable,
     "pools of one window are reductions; for GPUs, convolutions that are matrix products are products"},
    {"pad_few_channels", PadFewChannels, Leaves::kGraph, kEach, kSkippable,
     "for GPUs: convolutions of three channels read a copy of four, a pixel an access"},
    {"order_convolution_weights", OrderWeights, Leaves::kGraph, kEach, kSkippable,
     "weights of convolutions lie as the target reads them: output channels last, or input channels"},
    {"fuse", FuseGraph, Leaves::kLowered, kEach, kNeeded,
     "turns the graph into kernels; every node is computed inside exactly one part"},
    {"choose_libraries", PickLibraries, Leaves::kLowered, kEach, kSkippable,
     "for GPUs: products that a vendor library computes best have scratch memory and an epilogue it knows"},
    {"schedule", Schedule, Leaves::kLowered, kEach, kSkippable,
     "orders the kernels for the least peak of live bytes; dependences hold"},
    {"expand_loops", WriteOutLoops, Leaves::kLowered, kEach, kNeeded,
     "loops are kernels that repeat; what a round hands on has its place"},
    {"partition", MakePartitions, Leaves::kLowered, kEach, kNeeded,
     "cuts the steps into the fewest runs that replay as one graph, each cut with its reason"},
    {"memory", PlanArena, Leaves::kLowered, kEach, kNeeded,
     "gives every value its place in the arena; what lives at once does not overlap"},
    {"emit", Emit, Leaves::kPlan, kOnce, kNeeded,
     "makes one plan of all programs; weights, state and kernels that are equal are shared"},
    {"codegen", GenerateCode, Leaves::kPlan, kOnce, kNeeded,
     "every kernel has machine code for each architecture of the targets that are GPUs"},
    {"check", Check, Leaves::kPlan, kOnce, kNeeded,
     "proves the plan with the verifier, the independent checker and the check of machine code; what cannot "
     "be "
     "proven is not written"},
};

// ------------------------------------------------------------------------------------- running

const PipelineEntry* FindPass(std::string_view name) {
  for (const PipelineEntry& entry : kPipeline) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

std::string KnownPasses(bool skippable_only) {
  std::string names;
  for (const PipelineEntry& entry : kPipeline) {
    if (skippable_only && !entry.skippable) continue;
    names += (names.empty() ? "" : ", ") + std::string(entry.name);
  }
  return names;
}

Status CheckOptions(const CompileOptions& options) {
  if (options.models.empty()) return Status::Error(Code::kInvalidArgument, "no model is given");
  if (options.deterministic && options.products == Products::kLibrary) {
    return Status::Error(
        Code::kInvalidArgument,
        "deterministic results need generated products: another version of a library may choose "
        "another algorithm");
  }
  if (options.devices > kMaxDevices) {
    return Status::Error(Code::kInvalidArgument, "%u devices; a plan is for at most %u", options.devices,
                         kMaxDevices);
  }
  if (options.tensor_parallel > kMaxDevices) {
    return Status::Error(Code::kInvalidArgument, "%u devices; a plan is for at most %u",
                         options.tensor_parallel, kMaxDevices);
  }
  if (options.tensor_parallel > 1 && options.devices > 0) {
    return Status::Error(
        Code::kInvalidArgument,
        "--tp %u shares a whole model out, --devices %u is for models that say themselves what "
        "each device does: give one of them",
        options.tensor_parallel, options.devices);
  }
  std::set<std::string> names;
  for (const ModelSource& model : options.models) {
    if (options.tensor_parallel > 1 && ModelPathOn(model.path, 0) != model.path) {
      return Status::Error(Code::kInvalidArgument,
                           "--tp %u shares a whole model out, but \"%s\" names a file for each device: give "
                           "--devices N",
                           options.tensor_parallel, model.path.c_str());
    }
    if (!names.insert(model.program).second) {
      return Status::Error(Code::kInvalidArgument, "two programs are called \"%s\"", model.program.c_str());
    }
  }
  for (const std::string& name : options.dump_after) {
    if (FindPass(name) != nullptr) continue;
    return Status::Error(Code::kInvalidArgument, "there is no pass \"%s\"; passes: %s", name.c_str(),
                         KnownPasses(false).c_str());
  }
  for (const std::string& name : options.skip_passes) {
    const PipelineEntry* entry = FindPass(name);
    if (entry != nullptr && entry->skippable) continue;
    return Status::Error(Code::kInvalidArgument, "pass \"%s\" cannot be skipped; these can: %s", name.c_str(),
                         KnownPasses(true).c_str());
  }
  if (options.weights_file.find('/') != std::string::npos) {
    return Status::Error(Code::kInvalidArgument, "weights file \"%s\" must be a name without a folder",
                         options.weights_file.c_str());
  }
  return Status::Ok();
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The program as it stands after a pass with this result.
std::string DumpOf(const ProgramInWork& program, Leaves leaves) {
  return leaves == Leaves::kGraph ? ir::Dump(program.graph) : Dump(program.planned.lowered);
}

Status RunPass(const PipelineEntry& entry, Compilation* compilation, ProgramInWork* program) {
  const CompileOptions& options = compilation->options;
  const std::string name = program == nullptr ? "" : NameOf(options, *program);
  if (options.progress) options.progress(name, entry.name);
  const auto start = std::chrono::steady_clock::now();
  PassReport report;
  report.program = name;
  report.pass = entry.name;
  Status status = entry.run(compilation, program, &report.text);
  if (status.ok() && entry.leaves == Leaves::kGraph && program != nullptr) {
    const std::string broken = ir::Validate(program->graph);
    if (!broken.empty()) status = Status::Error(Code::kInternal, "%s", broken.c_str());
  }
  report.seconds = SecondsSince(start);
  compilation->report.passes.push_back(std::move(report));
  if (!status.ok()) {
    return program == nullptr ? status.At("%s", entry.name)
                              : status.At("program \"%s\": %s", name.c_str(), entry.name);
  }
  if (!options.dump || !Contains(options.dump_after, entry.name)) return Status::Ok();
  if (program != nullptr) options.dump(name, entry.name, DumpOf(*program, entry.leaves));
  if (program == nullptr && entry.leaves == Leaves::kGraph) {
    for (const ProgramInWork& each : compilation->programs)
      options.dump(NameOf(options, each), entry.name, DumpOf(each, entry.leaves));
  }
  return Status::Ok();
}

// Once a pass is over for all programs: what the options named has been found in one of them.
Status CheckNames(const PipelineEntry& entry, const Compilation& compilation) {
  if (entry.run == Import) {
    for (const auto& [name, dims] : compilation.options.shapes) {
      if (Contains(compilation.shapes_found, name)) continue;
      return Status::Error(Code::kInvalidArgument,
                           "shape \"%s\": no model has an input or a symbolic dimension of that name",
                           name.c_str());
    }
  }
  if (entry.run == PairState) {
    for (const StateName& state : compilation.options.states) {
      if (Contains(compilation.states_found, state.input)) continue;
      return Status::Error(Code::kInvalidArgument,
                           "state \"%s:%s\": no model has an input or output of these names",
                           state.input.c_str(), state.output.c_str());
    }
  }
  if (entry.run == MakePartitions) {
    for (const std::string& node : compilation.options.break_before) {
      if (Contains(compilation.breaks_found, node)) continue;
      return Status::Error(
          Code::kInvalidArgument,
          "a break was asked for before node \"%s\", but no step comes from a node of that name",
          node.c_str());
    }
  }
  return Status::Ok();
}

void ReportProgram(const CompileOptions& options, const ProgramInWork& program, CompileReport* report) {
  ProgramReport out;
  out.program = NameOf(options, program);
  out.steps = static_cast<uint32_t>(program.planned.lowered.ops.size());
  for (const PlannedPartition& p : program.planned.partitions) {
    out.partitions.push_back({p.first_step, p.num_steps, p.reason, p.detail});
  }
  out.peak_before = static_cast<uint64_t>(program.schedule.peak_before);
  out.peak_after = static_cast<uint64_t>(program.schedule.peak_after);
  out.arena_bytes = static_cast<uint64_t>(program.planned.memory.arena_bytes);
  out.arena_lower_bound = static_cast<uint64_t>(program.planned.memory.lower_bound);
  report->programs.push_back(std::move(out));
}

void FinishReport(const EmitReport& emitted, CompileReport* report) {
  report->weights_bytes = emitted.weights_bytes;
  report->synthetic_bytes = emitted.synthetic_bytes;
  report->state_bytes = emitted.state_bytes;
  report->arena_bytes = emitted.arena_bytes;
  report->kernels = emitted.kernels;
}

}  // namespace

Span<const PipelineEntry> Pipeline() { return kPipeline; }

Status RunPipeline(Compilation* compilation) {
  const auto start = std::chrono::steady_clock::now();
  RONDO_RETURN_IF_ERROR(CheckOptions(compilation->options));
  RONDO_ASSIGN_OR_RETURN(compilation->targets, ParseTargets(compilation->options.target));
  for (const ModelSource& model : compilation->options.models) {
    for (uint32_t device = 0; device < std::max(compilation->options.devices, 1u); ++device) {
      compilation->programs.emplace_back();
      compilation->programs.back().source = model;
      compilation->programs.back().device = device;
    }
  }
  for (const PipelineEntry& entry : kPipeline) {
    if (Contains(compilation->options.skip_passes, entry.name)) continue;
    if (entry.run == Emit) {
      for (const ProgramInWork& program : compilation->programs) {
        ReportProgram(compilation->options, program, &compilation->report);
      }
    }
    if (entry.once) {
      RONDO_RETURN_IF_ERROR(RunPass(entry, compilation, nullptr));
      continue;
    }
    for (ProgramInWork& program : compilation->programs) {
      RONDO_RETURN_IF_ERROR(RunPass(entry, compilation, &program));
    }
    RONDO_RETURN_IF_ERROR(CheckNames(entry, *compilation));
  }
  FinishReport(compilation->emit_report, &compilation->report);
  compilation->report.seconds = SecondsSince(start);
  return Status::Ok();
}

}  // namespace rondo
