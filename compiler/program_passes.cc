#include "compiler/program_passes.h"

#include <algorithm>
#include <set>

#include "compiler/bound_nodes.h"
#include "compiler/codegen/cuda/add_modules.h"
#include "compiler/codegen/cuda/choose_libraries.h"
#include "compiler/codegen/cuda/estimate_kernels.h"
#include "compiler/codegen/cuda/reduction/team_limits.h"
#include "compiler/codegen/store_panels.h"
#include "compiler/fusion/fuse.h"
#include "compiler/given_ports.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/port_names.h"
#include "compiler/model_shapes.h"
#include "compiler/node_fates.h"
#include "compiler/passes/split_reductions.h"
#include "compiler/schedule/expand_loops.h"
#include "compiler/schedule/keep_together.h"
#include "compiler/schedule/streams.h"
#include "formats/machine_code/binary_check.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/plan_timeline.h"
#include "formats/plan/verifier.h"

namespace rondo {

std::string NameOf(const CompileOptions& options, const ProgramInWork& program) {
  const std::string& name = program.source.program;
  return options.devices > 1 || program.sharded ? name + "@" + std::to_string(program.device) : name;
}

namespace program_passes {
namespace {

// The shapes given for this program and for all programs.
Status ShapesOf(const ModelSource& source, const onnx::Model& model, Compilation* compilation,
                ImportOptions* import, std::vector<std::string>* remarks) {
  std::map<std::string, std::vector<int64_t>> shapes = source.shapes;
  shapes.insert(compilation->options.shapes.begin(), compilation->options.shapes.end());
  std::vector<std::string> found;
  std::set<std::string> own;
  for (const auto& [name, dims] : source.shapes) own.insert(name);
  RONDO_RETURN_IF_ERROR(SplitShapes(model, shapes, own, import, &found, remarks));
  for (const auto& [name, dims] : source.shapes) {
    if (Contains(found, name)) continue;
    return Status::Error(
        Code::kInvalidArgument,
        "shape \"%s\": the model has no input or symbolic dimension of that name; nearest: %s", name.c_str(),
        ir::NearNames(NamesOf(ShapeNames(model)), name).c_str());
  }
  compilation->shapes_found.insert(compilation->shapes_found.end(), found.begin(), found.end());
  return Status::Ok();
}

// The inputs bound for this program and for all programs.
Status BoundOf(const ModelSource& source, const onnx::Model& model, Compilation* compilation,
               ImportOptions* import) {
  BoundValues bound = source.bound_inputs;
  bound.insert(compilation->options.bound_inputs.begin(), compilation->options.bound_inputs.end());
  BindInputs(model, bound, import);
  for (const auto& [name, value] : import->bound_inputs) compilation->bound_found.push_back(name);
  for (const auto& [name, value] : source.bound_inputs) {
    if (import->bound_inputs.count(name) != 0) continue;
    return Status::Error(Code::kInvalidArgument, "bind \"%s\": the model has no input of that name",
                         name.c_str());
  }
  return Status::Ok();
}

template <typename Ports>
std::vector<std::string> NamesOfPorts(const Ports& ports) {
  std::vector<std::string> names;
  for (const auto& port : ports) names.push_back(port.name());
  return names;
}

// The states given by name of which the model has both names, or one. In the latter case the other must come
// into being.
Status StatesOf(const onnx::Model& model, Compilation* compilation, std::vector<StateName>* states) {
  const CompileOptions& options = compilation->options;
  const std::vector<std::string> inputs = NamesOfPorts(model.proto().graph().input()),
                                 outputs = NamesOfPorts(model.proto().graph().output());
  for (const StateName& state : options.states) {
    states->push_back(state);
    if (Contains(inputs, state.input) || Contains(outputs, state.output))
      compilation->states_found.push_back(state.input + ":" + state.output);
  }
  for (const std::string& text : options.state_texts) {
    RONDO_ASSIGN_OR_RETURN(const std::optional<NamePair> both, PartNames("--state", text, inputs, outputs));
    if (both) {
      compilation->states_found.push_back(text);
      states->push_back({both->first, both->second});
      continue;
    }
    for (const auto& [input, output] : PairsIn(text)) {
      if (Contains(inputs, input) || Contains(outputs, output)) states->push_back({input, output});
    }
  }
  return Status::Ok();
}

// The traits of the target that decides, with only the features that every GPU has.
TargetTraits TraitsOf(const Targets& targets) {
  if (!targets.any_gpu()) return HostTraits();
  TargetTraits traits = GpuTraits();
  traits.wgmma = traits.clusters = traits.fp8 = true;
  for (const Target& target : targets.all) {
    if (target.is_host()) continue;
    const auto gpu = TargetOf(target.gpu->architecture);
    traits.wgmma &= target.gpu->wgmma;
    traits.clusters &= gpu.clusters();
    traits.fp8 &= gpu.fp8();
  }
  return traits;
}

// The options of the passes in compiler/passes.
passes::PassOptions OptionsFor(const CompileOptions& options) {
  passes::PassOptions out;
  out.auto_state = options.auto_state;
  if (options.precision == Precision::kF16) out.precision = DType::kF16;
  if (options.precision == Precision::kBF16) out.precision = DType::kBF16;
  out.quantize = options.quantize.type;
  out.quantize_block = options.quantize.block;
  out.target = TraitsOf(options.targets);
  return out;
}

}  // namespace

Status OnGraph(passes::PassFunction pass, Compilation* compilation, ProgramInWork* program,
               std::string* text) {
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, pass(&program->graph, OptionsFor(compilation->options)));
  *text = std::move(result.text);
  return Status::Ok();
}

Status OnGraphAndBodies(passes::PassFunction pass, Compilation* compilation, ProgramInWork* program,
                        std::string* text) {
  RONDO_RETURN_IF_ERROR(OnGraph(pass, compilation, program, text));
  const passes::PassOptions options = OptionsFor(compilation->options);
  return ir::ForEachBody(&program->graph, [&](ir::Graph* body) { return pass(body, options).status(); });
}

Status Import(Compilation* compilation, ProgramInWork* program, std::string* text) {
  const CompileOptions& options = compilation->options;
  RONDO_ASSIGN_OR_RETURN(
      std::shared_ptr<onnx::Model> model,
      onnx::Model::Open(ModelPathOn(program->source.path, program->device), options.external_data));
  ImportOptions import;
  import.devices = options.devices;
  import.rank = program->device;
  ImportReport report;
  RONDO_RETURN_IF_ERROR(ShapesOf(program->source, *model, compilation, &import, &report.remarks));
  RONDO_RETURN_IF_ERROR(BoundOf(program->source, *model, compilation, &import));
  RONDO_RETURN_IF_ERROR(StatesOf(*model, compilation, &program->states));
  import.values_at_hand = options.values_at_hand;
  import.position_masks = options.position_masks;
  import.ops = options.ops;
  if (compilation->options.targets.any_gpu()) import.calls_outside_graphs = "it runs on the host";
  import.longest_unrolled = options.longest_unrolled;
  import.bounds = options.bounds;
  import.annotations = options.annotations;
  import.allow_synthetic = options.synthetic_seed.has_value();
  import.synthetic_seed = options.synthetic_seed.value_or(0);
  import.live_weights = options.live_weights;
  if (options.cache_length > 0) {
    std::vector<std::pair<std::string, std::string>> states;
    for (const StateName& state : program->states) states.emplace_back(state.input, state.output);
    auto imported =
        ImportWithFixedCaches(model, import, options.cache_length, states, &report, &program->caches);
    if (!imported.ok()) return WithUnknownShape(*compilation, imported.status());
    program->graph = imported.Take();
  } else if (!program->source.rooms.empty()) {
    import.shared_over = std::max(options.tensor_parallel, 1u) * std::max(options.pipeline_parallel, 1u);
    BucketNote note;
    note.family = program->source.bucket_of;
    note.lengths = program->source.rooms;
    RONDO_ASSIGN_OR_RETURN(program->graph,
                           ImportForBucket(model, import, program->source.is_largest, &note, &report));
  } else {
    import.shared_over = std::max(options.tensor_parallel, 1u) * std::max(options.pipeline_parallel, 1u);
    auto imported = ImportModel(model, import, &report);
    if (!imported.ok()) return WithUnknownShape(*compilation, imported.status());
    program->graph = imported.Take();
  }
  program->graph.name = program->source.program;
  program->values = std::move(report.values);
  FollowNodes(program);
  for (const std::string& node : report.unneeded) program->fates.emplace(node, plan::NodeFate::kUnneeded);
  program->hints = std::move(report.hints);
  program->bound = std::move(report.bound);
  program->asserted = std::move(report.asserted);
  program->sources_of = std::move(report.sources_of);
  program->sources_in = std::move(report.sources_in);
  program->frozen = std::move(report.frozen);
  compilation->annotated.resize(report.annotated.size());
  for (size_t i = 0; i < report.annotated.size(); ++i)
    compilation->annotated[i] = compilation->annotated[i] || report.annotated[i];
  *text = std::to_string(report.onnx_nodes) + " ONNX nodes -> " + std::to_string(program->graph.size()) +
          " nodes, " + std::to_string(report.synthetic.size()) + " synthetic weights";
  for (const std::string& name : report.empty_outputs)
    *text += "\noutput \"" + name + "\" has no elements with the inputs bound so, and is left out";
  for (const std::string& name : program->frozen)
    *text += "\ninput \"" + name + "\" is frozen: the compiler must know its value";
  for (const std::string& remark : report.remarks) *text += "\n" + remark;
  compilation->bounds_found.insert(compilation->bounds_found.end(), report.bounds_used.begin(),
                                   report.bounds_used.end());
  if (options.cache_length == 0) {
    const std::string note = NoteOnGrowingCaches(*model, program->graph);
    if (!note.empty()) *text += "\n" + note;
  }
  return Status::Ok();
}

// Attention over caches of fixed length sees only the cached positions.
Status LimitToCached(Compilation* compilation, ProgramInWork* program, std::string* text) {
  passes::PassOptions options = OptionsFor(compilation->options);
  options.fixed_caches = program->caches.inputs;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::LimitToCached(&program->graph, options));
  *text = std::move(result.text);
  return Status::Ok();
}

// Of the pairs given by name: those of which this model has one name. It must have the other as well.
Status PairState(Compilation* compilation, ProgramInWork* program, std::string* text) {
  passes::PassOptions options = OptionsFor(compilation->options);
  options.states = program->shared_caches;
  options.fixed_caches = program->caches.inputs;
  for (const StateName& state : program->states) {
    const auto& inputs = program->graph.inputs;
    const auto& outputs = program->graph.outputs;
    const NamePair pair(state.input, state.output);
    const bool known =
        std::any_of(inputs.begin(), inputs.end(), [&](const auto& i) { return i.name == state.input; }) ||
        std::any_of(outputs.begin(), outputs.end(), [&](const auto& o) { return o.name == state.output; });
    if (known && std::find(options.states.begin(), options.states.end(), pair) == options.states.end())
      options.states.push_back(pair);
  }
  for (const std::string& name : compilation->options.donations) {
    const auto& inputs = program->graph.inputs;
    if (std::none_of(inputs.begin(), inputs.end(), [&](const auto& i) { return i.name == name; })) continue;
    options.donations.push_back(name);
    compilation->donations_found.push_back(name);
  }
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::PairState(&program->graph, options));
  *text = std::move(result.text);
  return Status::Ok();
}

Status SplitReductions(Compilation* compilation, ProgramInWork* program, std::string* text) {
  const TargetTraits traits = TraitsOf(compilation->options.targets);
  passes::SplitOptions options;
  for (const Target& target : compilation->options.targets.all)
    if (!target.is_host()) options.processors = std::max<int64_t>(options.processors, target.gpu->processors);
  options.row_blocks = traits.clusters ? cuda::kTeamBlocks : 1;
  options.row_bytes = 4 * cuda::kTeamRegisters * kCudaBlock;
  options.channels_last = traits.tensor_cores;
  RONDO_ASSIGN_OR_RETURN(passes::PassResult result, passes::SplitReductions(&program->graph, options));
  *text = std::move(result.text);
  return ir::ForEachBody(&program->graph,
                         [&](ir::Graph* body) { return passes::SplitReductions(body, options).status(); });
}

Status FuseGraph(Compilation* compilation, ProgramInWork* program, std::string* text) {
  FuseOptions options;
  options.target = TraitsOf(compilation->options.targets);
  if (options.target.many_threads) options.longest_kept_row = 1024;
  if (options.target.clusters) {
    options.least_shared_row = kLeastTeamRow;
    options.most_shared_row = kMostTeamRow;
    options.most_shared_rows = kMostTeamRows;
  }
  options.tf32 = compilation->options.precision == Precision::kTf32;
  options.device = program->device;
  options.apart = program->apart;
  FuseReport report;
  FollowNodes(program);
  RONDO_ASSIGN_OR_RETURN(program->planned.lowered, Fuse(std::move(program->graph), options, &report));
  program->planned.lowered.name = program->source.program;
  program->planned.device = program->device;
  program->graph = ir::Graph();
  *text = report.text;
  return Status::Ok();
}

Status PickLibraries(Compilation* compilation, ProgramInWork* program, std::string* text) {
  const CompileOptions& options = compilation->options;
  LoweredProgram* lowered = &program->planned.lowered;
  LibraryOptions libraries;
  libraries.matmuls = options.matmuls;
  const std::string architecture = options.targets.deciding().gpu->architecture;
  const CudaTarget target = TargetOf(architecture);
  if (options.profile.architecture == architecture)
    libraries.configuration = [&](const Kernel& kernel) { return options.profile.Of(kernel); };
  if (options.deterministic) {
    *text = "all matmuls are generated: a library's algorithms are up to its version";
  } else {
    RONDO_RETURN_IF_ERROR(ChooseLibraries(lowered, target, libraries, text));
  }
  EstimateKernels(lowered, target, libraries.configuration);
  return Status::Ok();
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

Status PutOnStreams(Compilation*, ProgramInWork* program, std::string* text) {
  RONDO_ASSIGN_OR_RETURN(*text, AssignStreams(&program->planned.lowered));
  return Status::Ok();
}

OverlapOptions OverlapOptionsFor(const Compilation& compilation, size_t devices) {
  const CompileOptions& options = compilation.options;
  OverlapOptions overlap;
  overlap.costs = CostModelOf(options.targets.any_gpu(), static_cast<uint32_t>(devices));
  overlap.costs.measured = options.profile.times;
  overlap.budget = options.overlap_budget;
  overlap.break_before = options.break_before;
  return overlap;
}

// Handles all devices of one program at once, because they wait for each other.
Status Overlap(Compilation* compilation, ProgramInWork*, std::string* text) {
  const CompileOptions& options = compilation->options;
  for (size_t first = 0; first < compilation->programs.size(); ++first) {
    const std::string& name = compilation->programs[first].source.program;
    std::vector<ProgramInWork*> programs;
    std::vector<ProgramOnDevice> devices;
    for (ProgramInWork& program : compilation->programs) {
      if (program.source.program != name) continue;
      programs.push_back(&program);
      devices.push_back(
          {program.device, &program.planned.lowered, program.gathered.at_once, program.uncut_arena});
    }
    if (programs[0] != &compilation->programs[first]) continue;
    OverlapOptions overlap = OverlapOptionsFor(*compilation, devices.size());
    if (programs[0]->variant == Variant::kSmallest) overlap.budget = 0;
    std::vector<OverlapReport> reports = OverlapOnDevices(devices, overlap);
    for (size_t d = 0; d < programs.size(); ++d) {
      *text += (text->empty() ? "" : "\n") + NameOf(options, *programs[d]) + ": " + reports[d].text;
      programs[d]->planned.overlap = std::move(reports[d]);
    }
  }
  return Status::Ok();
}

Status KeepRegions(Compilation*, ProgramInWork* program, std::string* text) {
  *text = KeepTogether(&program->planned.lowered);
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
  for (const PlannedPartition& partition : program->planned.partitions) {
    *text += "\n" + partition.detail;
    const size_t end = partition.first_step + partition.num_steps;
    if (end >= lowered->ops.size() || !ir::IsKeptTogether(RegionOf(lowered->ops[end]))) continue;
    if (RegionOf(lowered->ops[end - 1]) != RegionOf(lowered->ops[end])) continue;
    return Status::Error(Code::kInvalidArgument,
                         "nodes are to be kept together, but a graph ends amid them: %s",
                         partition.detail.c_str());
  }
  return Status::Ok();
}

Status LookForAnnotations(Compilation* compilation, ProgramInWork*, std::string* text) {
  return AnnotationsHold(*compilation, text);
}

Status PlanArena(Compilation*, ProgramInWork* program, std::string* text) {
  program->planned.memory = PlanMemory(program->planned.lowered);
  *text = program->planned.memory.text;
  return Status::Ok();
}

namespace {

void ReportProgram(const CompileOptions& options, const ProgramInWork& program, CompileReport* report) {
  ProgramReport out;
  out.program = NameOf(options, program);
  out.variant_of = program.variant_of;
  out.steps = static_cast<uint32_t>(program.planned.lowered.ops.size());
  for (const PlannedPartition& p : program.planned.partitions) {
    out.partitions.push_back({p.first_step, p.num_steps, p.reason, p.detail});
  }
  out.peak_before = static_cast<uint64_t>(program.schedule.peak_before);
  out.peak_after = static_cast<uint64_t>(program.schedule.peak_after);
  out.peak_least = static_cast<uint64_t>(program.schedule.least);
  out.order = program.schedule.text;
  out.arena_bytes = static_cast<uint64_t>(program.planned.memory.arena_bytes);
  out.arena_lower_bound = static_cast<uint64_t>(program.planned.memory.lower_bound);
  out.fusions = program.fusions;
  out.overlap = program.planned.overlap;
  out.frozen = program.frozen;
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

// Live weights keep the order of the model, which later values of them have.
Status LayOutPanels(Compilation* compilation, ProgramInWork*, std::string* text) {
  const CompileOptions& options = compilation->options;
  if (options.targets.any_gpu() || options.live_weights) {
    *text = options.live_weights ? "weights are live" : "for hosts";
    return Status::Ok();
  }
  std::vector<LoweredProgram*> programs;
  for (ProgramInWork& program : compilation->programs) programs.push_back(&program.planned.lowered);
  *text = StorePanels(programs);
  return Status::Ok();
}

Status Emit(Compilation* compilation, ProgramInWork*, std::string* text) {
  EmitOptions options;
  options.fates = FatesOf(*compilation);
  std::vector<PlannedProgram> planned;
  for (ProgramInWork& program : compilation->programs) {
    ReportProgram(compilation->options, program, &compilation->report);
    program.planned.asserted = program.asserted;
    program.planned.variant_of = program.variant_of;
    planned.push_back(std::move(program.planned));
  }
  for (const ProgramInWork& program : compilation->programs)
    options.values.insert(options.values.end(), program.values.begin(), program.values.end());
  options.targets = compilation->options.targets;
  options.weights_file = compilation->options.weights_file;
  options.times = compilation->options.profile.times;
  RONDO_ASSIGN_OR_RETURN(compilation->emitted,
                         EmitPlan(std::move(planned), options, &compilation->emit_report));
  FinishReport(compilation->emit_report, &compilation->report);
  const PlanData& plan = compilation->emitted.plan;
  compilation->report.estimates = OriginsOf(CostModelOf(plan), plan).Text();
  *text = compilation->emit_report.text;
  return Status::Ok();
}

Status GenerateCode(Compilation* compilation, ProgramInWork*, std::string* text) {
  const CompileOptions& options = compilation->options;
  ModuleOptions modules;
  modules.units.library_path = options.library_path;
  modules.units.cache_folder = options.kernel_cache;
  modules.units.threads = static_cast<unsigned>(std::max(0, options.threads));
  modules.profile = options.profile;
  modules.alternatives = options.alternatives;
  modules.library_alternatives = !options.deterministic;
  for (const Target& target : options.targets.all) {
    if (target.is_host()) continue;
    const char* const architecture = target.gpu->architecture;
    ProfileUse use;
    modules.units.architecture = architecture;
    std::string report;
    RONDO_RETURN_IF_ERROR(
        AddCudaModules(&compilation->emitted, modules, &report, &use).At("%s", architecture));
    *text += (text->empty() ? "" : "\n") + report;
    // The module of the profile's architecture reports how the profile was used; otherwise the first module
    // does.
    const bool first = compilation->emitted.plan.modules.size() == 1;
    if (first || options.profile.architecture == architecture) compilation->report.profile = use;
  }
  return Status::Ok();
}

Status Check(Compilation* compilation, ProgramInWork*, std::string* text) {
  RONDO_RETURN_IF_ERROR(VerifyPlan(compilation->emitted.plan));
  RONDO_RETURN_IF_ERROR(CheckPlan(compilation->emitted.plan));
  for (const CodeModule& module : compilation->emitted.plan.modules)
    RONDO_RETURN_IF_ERROR(CheckBinaries(compilation->emitted.plan, module, true));
  compilation->report.slow_kernels = SlowKernelsOf(compilation->emitted.plan);
  *text = "verified and checked";
  return Status::Ok();
}

}  // namespace program_passes
}  // namespace rondo
