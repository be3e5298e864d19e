#include "compiler/codegen/emit_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "compiler/codegen/communicator_bytes.h"
#include "compiler/codegen/lowered_rules.h"
#include "compiler/codegen/plan_emitter.h"
#include "formats/plan/certificate.h"
#include "formats/plan/copies.h"
#include "formats/plan/need.h"
#include "formats/plan/writer.h"

namespace rondo {

Result<EmittedPlan> PlanEmitter::Emit(EmitReport* report) {
  for (const PlannedProgram& program : programs_) {
    const std::string broken = LoweredRulesBroken(program.lowered);
    if (!broken.empty()) return Status::Error(Code::kInternal, "%s", broken.c_str());
  }
  value_buffers_.resize(programs_.size());
  for (size_t p = 0; p < programs_.size(); ++p) {
    value_buffers_[p].assign(programs_[p].lowered.values.size(), kNone);
  }
  GroupDevices();
  AddStates();
  AddConstants();
  for (const Group& group : groups_) AddProgramBuffers(group);
  LayOutShared();
  for (const Group& group : groups_) RONDO_RETURN_IF_ERROR(AddProgram(group));
  Finish(report);
  return std::move(out_);
}

uint32_t PlanEmitter::Source(const std::vector<std::string>& sources) {
  if (sources.empty()) return kNone;
  std::string joined;
  for (const std::string& s : sources) joined += (joined.empty() ? "" : "; ") + s;
  const auto [entry, added] = source_numbers_.try_emplace(joined, static_cast<uint32_t>(sources_.size()));
  if (added) sources_.push_back(Text(joined));
  return entry->second;
}

void PlanEmitter::GroupDevices() {
  for (size_t p = 0; p < programs_.size(); ++p) {
    const PlannedProgram& planned = programs_[p];
    if (groups_.empty() || programs_[groups_.back().first].lowered.name != planned.lowered.name) {
      groups_.push_back({p, p, static_cast<uint32_t>(groups_.size())});
    }
    groups_.back().end = p + 1;
    if (planned.device >= devices_.size()) devices_.resize(planned.device + 1);
  }
}

// The name of a device's output or state. The first device that has one of this name uses the name alone.
std::string PlanEmitter::NameOn(const std::string& name, size_t p) const {
  size_t first = p;
  while (first > 0 && programs_[first - 1].lowered.name == programs_[p].lowered.name) --first;
  const auto has = [&](const std::vector<LoweredPort>& ports) {
    return std::any_of(ports.begin(), ports.end(),
                       [&](const LoweredPort& port) { return port.name == name; });
  };
  while (first < p && !has(programs_[first].lowered.inputs) && !has(programs_[first].lowered.outputs))
    ++first;
  return first == p ? name : name + "@" + std::to_string(programs_[p].device);
}

uint32_t PlanEmitter::BufferOf(size_t p, const LoweredPort& port) const {
  return value_buffers_[p][static_cast<size_t>(port.value)];
}

// An input is one port for all devices that have it. Each device's state is its own port.
Result<Span<const Port>> PlanEmitter::Inputs(const Group& group) {
  std::vector<Port> ports;
  std::vector<std::vector<uint32_t>> replicas;
  std::map<std::string, size_t> known;
  for (size_t p = group.first; p < group.end; ++p) {
    for (const LoweredPort& port : programs_[p].lowered.inputs) {
      const uint32_t buffer = BufferOf(p, port);
      const auto [entry, added] =
          known.try_emplace(port.is_state ? NameOn(port.name, p) : port.name, ports.size());
      if (added) {
        ports.push_back({Text(entry->first), buffer, port.is_state, {}});
        replicas.emplace_back();
        continue;
      }
      const Buffer &first = buffers_[ports[entry->second].buffer], &other = buffers_[buffer];
      if (!(first.shape == other.shape) || first.dtype != other.dtype) {
        return Status::Error(Code::kInvalidArgument,
                             "program \"%s\": devices disagree about input \"%s\": it is %s on device %u, %s "
                             "on device %u",
                             programs_[p].lowered.name.c_str(), port.name.c_str(), TensorText(first).c_str(),
                             first.device, TensorText(other).c_str(), other.device);
      }
      replicas[entry->second].push_back(buffer);
    }
  }
  for (size_t i = 0; i < ports.size(); ++i) ports[i].replicas = out_.arena->Copy(replicas[i]);
  return Span<const Port>(out_.arena->Copy(ports));
}

Span<const Port> PlanEmitter::Outputs(const Group& group) {
  std::vector<Port> ports;
  for (size_t p = group.first; p < group.end; ++p) {
    for (const LoweredPort& port : programs_[p].lowered.outputs) {
      ports.push_back({Text(NameOn(port.name, p)), BufferOf(p, port), port.is_state, {}});
    }
  }
  return out_.arena->Copy(ports);
}

std::string PlanEmitter::TensorText(const Buffer& buffer) {
  char shape[160];
  return std::string(Name(buffer.dtype)) + " " + Format(buffer.shape, shape, sizeof shape);
}

Step PlanEmitter::StepOf(size_t p, size_t index, const StepEdges& edges, const Kernel& kernel) {
  const LoweredOp& op = programs_[p].lowered.ops[index];
  Step step;
  step.device = programs_[p].device;
  step.stream = op.stream;
  step.waits = out_.arena->Copy(edges.waits[index]);
  step.records = edges.records[index];
  step.after = out_.arena->Copy(edges.after[index]);
  step.source = Source(op.sources);
  if (op.kind == LoweredKind::kCall) return CallOf(p, op, std::move(step));
  if (op.kind == LoweredKind::kKernel) {
    step.kernel = kernels_.Add(kernel);
    out_.library.resize(kernels_.kernels().size());
    out_.library[step.kernel] = op.library;
  } else {
    step.sync_point = sync_points_[p - first_of_group_][static_cast<size_t>(op.collective)];
    const bool start = op.kind == LoweredKind::kCollectiveStart;
    step.kind = start ? StepKind::kCollectiveStart : StepKind::kCollectiveWait;
    if (!start) return step;
  }
  std::vector<Binding> bindings;
  for (const LoweredBinding& param : op.params) {
    bindings.push_back(
        {value_buffers_[p][static_cast<size_t>(param.value)], param.byte_offset, param.stride});
  }
  step.bindings = out_.arena->Copy(bindings);
  return step;
}

// Makes one binding for each argument. An output in an input's memory is bound in the input's place.
Step PlanEmitter::CallOf(size_t p, const LoweredOp& op, Step step) {
  const CustomOp& call = op.call->op;
  step.kind = StepKind::kCustom;
  const auto [entry, added] = custom_of_.try_emplace(op.call->key, static_cast<uint32_t>(custom_ops_.size()));
  if (added) {
    custom_ops_.push_back(call);
    out_.keep.push_back(op.call);
  }
  step.custom = entry->second;
  std::vector<Binding> bindings;
  size_t param = 0;
  for (const CustomArgument& argument : call.arguments) {
    if (argument.absent) {
      bindings.push_back({kNone, 0});
    } else if (argument.alias != kNone) {
      bindings.push_back(Binding(bindings[argument.alias]));
    } else {
      const LoweredBinding& bound = op.params[param++];
      bindings.push_back({value_buffers_[p][static_cast<size_t>(bound.value)], bound.byte_offset});
    }
  }
  step.bindings = out_.arena->Copy(bindings);
  return step;
}

// Appends one device's partitions, which follow those of the devices before it.
void PlanEmitter::AddPartitions(const PlannedProgram& planned, uint32_t first_step, bool last_device,
                                std::vector<Partition>* partitions) {
  for (const PlannedPartition& partition : planned.partitions) {
    partitions->push_back({planned.device, partition.first_step + first_step, partition.num_steps,
                           partition.reason, Text(partition.detail)});
  }
  if (last_device || planned.partitions.empty()) return;
  partitions->back().reason = BreakReason::kDeviceChange;
  partitions->back().detail = Text("the steps of device " + std::to_string(planned.device) + " end");
}

Result<Span<const SyncPoint>> PlanEmitter::SyncPoints(const Group& group) {
  std::vector<DeviceProgram> devices;
  for (size_t p = group.first; p < group.end; ++p)
    devices.push_back({programs_[p].device, &programs_[p].lowered});
  RONDO_ASSIGN_OR_RETURN(PlannedSyncPoints planned, SyncPointsOf(devices));
  std::vector<SyncPoint> points;
  std::vector<Span<const uint32_t>> groups;  // by communicator
  for (const PlannedSyncPoint& point : planned.points) {
    if (point.communicator == groups.size()) groups.push_back(out_.arena->Copy(point.collective.group));
    points.push_back({point.collective.op, point.collective.dtype,
                      static_cast<uint64_t>(point.collective.bytes), point.communicator,
                      groups[point.communicator], Source(point.sources)});
  }
  sync_points_ = std::move(planned.numbers);
  return Span<const SyncPoint>(out_.arena->Copy(points));
}

Status PlanEmitter::AddProgram(const Group& group) {
  Program program;
  program.name = Text(programs_[group.first].lowered.name);
  for (uint32_t p = 0; p < plan_programs_.size(); ++p) {
    if (plan_programs_[p].name == programs_[group.first].variant_of) program.variant_of = p;
  }
  first_of_group_ = group.first;
  RONDO_ASSIGN_OR_RETURN(program.inputs, Inputs(group));
  program.outputs = Outputs(group);
  RONDO_ASSIGN_OR_RETURN(program.sync_points, SyncPoints(group));
  NoteOverlaps(group);
  const uint32_t first_assertion = FirstAssertion(group);
  std::vector<Step> steps;
  std::vector<Partition> partitions;
  std::vector<Loop> loops;
  for (size_t p = group.first; p < group.end; ++p) {
    const PlannedProgram& planned = programs_[p];
    const auto first_step = static_cast<uint32_t>(steps.size());
    const StepEdges edges = EdgesOf(planned.lowered, first_step, &program.num_events);
    int loop = -1;
    for (size_t i = 0; i < planned.lowered.ops.size(); ++i) {
      const LoweredOp& op = planned.lowered.ops[i];
      if (op.loop >= 0 && op.loop != loop) {
        loops.push_back({static_cast<uint32_t>(steps.size()), 0,
                         static_cast<uint32_t>(planned.lowered.loops[static_cast<size_t>(op.loop)])});
      }
      loop = op.loop;
      if (loop >= 0) ++loops.back().num_steps;
      if (!op.moves_because.empty())
        reasons_.push_back(CopyInStep(program.name, static_cast<uint32_t>(steps.size())) + op.moves_because);
      const auto number = static_cast<uint32_t>(steps.size());
      steps.push_back(StepOf(p, i, edges, NumberAssertions(p, op.kernel, number, first_assertion)));
      program.num_streams = std::max(program.num_streams, op.stream + 1);
    }
    NoteRegions(planned.lowered, first_step);
    AddPartitions(planned, first_step, p + 1 == group.end, &partitions);
    const auto arena = static_cast<uint64_t>(planned.memory.arena_bytes);
    program.arena_lower_bound =
        std::max(program.arena_lower_bound, static_cast<uint64_t>(planned.memory.lower_bound));
    program.arena_bytes = std::max(program.arena_bytes, arena);
    devices_[planned.device].arena = std::max(devices_[planned.device].arena, arena);
    out_.keep.push_back(planned.lowered.arena);
    for (const auto& arena : planned.lowered.body_arenas) out_.keep.push_back(arena);
  }
  program.steps = out_.arena->Copy(steps);
  program.loops = out_.arena->Copy(loops);
  program.partitions = out_.arena->Copy(partitions);
  std::vector<uint64_t> certificates;
  for (uint32_t d = 0; d < devices_.size() && !program.sync_points.empty(); ++d) {
    certificates.push_back(OrderCertificate(program, d));
  }
  program.certificates = out_.arena->Copy(certificates);
  plan_programs_.push_back(program);
  return Status::Ok();
}

// Records what the plan needs besides its memory; the verifier checks it.
void PlanEmitter::StateNeeds() {
  PlanData& plan = out_.plan;
  std::vector<Need> needs;
  double scratch = 0, work = 0;
  for (const Kernel& kernel : plan.kernels) {
    needs.push_back(NeedOf(kernel));
    scratch = std::max(scratch, needs.back().scratch);
  }
  for (const Program& program : plan.programs) work = std::max(work, WorkOf(program, needs));
  plan.requirements.scratch = static_cast<uint64_t>(std::ceil(std::min(scratch, kMostScratch)));
  plan.requirements.work = static_cast<uint64_t>(std::ceil(std::min(work, kMostWork)));
}

// Names the values that have no memory in the plan, and the nodes that no step computes.
void PlanEmitter::NameOtherValues() {
  std::set<std::string_view> named;
  for (const Buffer& buffer : buffers_) named.insert(buffer.name);
  for (const NamedValue& value : options_.values) {
    if (named.count(value.value) == 0) Source({"value \"" + value.value + "\" of " + value.node});
  }
  for (const std::string& fate : options_.fates) Source({fate});
}

void PlanEmitter::Finish(EmitReport* report) {
  PlanData& plan = out_.plan;
  std::vector<Kernel> kernels = kernels_.kernels();
  for (size_t k = 0; k < kernels.size(); ++k) {
    kernels[k].name = Text(KernelName(kernels[k], static_cast<uint32_t>(k)));
  }
  plan.producer = "rondo";
  plan.requirements.target = Text(options_.targets.text());
  if (devices_.empty()) devices_.emplace_back();
  for (uint32_t d = 0; d < devices_.size() && options_.targets.any_gpu(); ++d) {
    devices_[d].communicator = CommunicatorBytes(Span<const Program>(plan_programs_), d);
  }
  plan.requirements.devices = out_.arena->Copy(devices_);
  NameOtherValues();
  for (const auto* notes : {&reasons_, &assertion_notes_}) {
    for (const std::string& note : *notes) Source({note});
  }
  plan.buffers = out_.arena->Copy(buffers_);
  plan.kernels = out_.arena->Copy(kernels);
  plan.programs = out_.arena->Copy(plan_programs_);
  NoteTimes();
  plan.sources = out_.arena->Copy(sources_);
  plan.custom_ops = out_.arena->Copy(custom_ops_);
  StateNeeds();
  plan.weights_file = Text(options_.weights_file);
  if (report == nullptr) return;
  report->weights_bytes = plan.weights_bytes;
  report->synthetic_bytes = synthetic_bytes_;
  for (const DeviceBytes& device : devices_) {
    report->state_bytes += device.state;
    report->arena_bytes = std::max(report->arena_bytes, device.arena);
  }
  report->shared_constants = shared_constants_;
  report->kernels = static_cast<uint32_t>(kernels.size());
  size_t steps = 0;
  for (const Program& program : plan.programs) steps += program.steps.size();
  report->text = std::to_string(steps) + " steps of " + std::to_string(kernels.size()) +
                 " kernels; weights " + std::to_string(plan.weights_bytes) + " bytes and " +
                 std::to_string(synthetic_bytes_) + " synthetic, " + std::to_string(shared_constants_) +
                 " shared; state " + std::to_string(report->state_bytes) + " bytes";
}

Result<EmittedPlan> EmitPlan(std::vector<PlannedProgram> programs, const EmitOptions& options,
                             EmitReport* report) {
  return PlanEmitter(std::move(programs), options).Emit(report);
}

std::vector<uint8_t> AssembleWeights(const EmittedPlan& emitted) {
  std::vector<uint8_t> weights(emitted.plan.weights_bytes);
  for (size_t i = 0; i < emitted.constant_bytes.size(); ++i) {
    const Span<const uint8_t> bytes = emitted.constant_bytes[i];
    if (!bytes.empty()) {
      std::memcpy(weights.data() + emitted.plan.buffers[i].file_offset, bytes.data(), bytes.size());
    }
  }
  return weights;
}

}  // namespace rondo
