#include "compiler/codegen/emit_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <tuple>

#include "compiler/codegen/communicator_bytes.h"
#include "compiler/codegen/kernel_table.h"
#include "compiler/codegen/lowered_rules.h"
#include "compiler/codegen/sync_points.h"
#include "compiler/codegen/weight_table.h"
#include "compiler/ir/arena.h"
#include "formats/plan/certificate.h"
#include "formats/plan/need.h"
#include "formats/plan/writer.h"

namespace rondo {
namespace {

constexpr uint64_t RoundUp(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

// Alignment of a constant among the weights: large ones begin a page, like in the file.
uint64_t WeightAlignment(uint64_t bytes) { return bytes >= 4096 ? 4096 : 64; }

// Gathers what the programs share, then builds the plan program by program.
class Emitter {
 public:
  Emitter(std::vector<PlannedProgram> programs, const EmitOptions& options)
      : programs_(std::move(programs)), options_(options) {
    out_.arena = ir::NewArena();
  }

  Result<EmittedPlan> Emit(EmitReport* report) {
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

 private:
  std::string_view Text(std::string_view text) { return out_.arena->CopyText(text); }

  uint32_t Source(const std::vector<std::string>& sources) {
    if (sources.empty()) return kNone;
    std::string joined;
    for (const std::string& s : sources) joined += (joined.empty() ? "" : "; ") + s;
    const auto [entry, added] = source_numbers_.try_emplace(joined, static_cast<uint32_t>(sources_.size()));
    if (added) sources_.push_back(Text(joined));
    return entry->second;
  }

  // The PlannedPrograms [first, end) that are one program of the plan.
  struct Group {
    size_t first, end;
    uint32_t index;  // of the program
  };

  void GroupDevices() {
    for (size_t p = 0; p < programs_.size(); ++p) {
      const PlannedProgram& planned = programs_[p];
      if (groups_.empty() || programs_[groups_.back().first].lowered.name != planned.lowered.name) {
        groups_.push_back({p, p, static_cast<uint32_t>(groups_.size())});
      }
      groups_.back().end = p + 1;
      if (planned.device >= devices_.size()) devices_.resize(planned.device + 1);
    }
  }

  // What a port or state of a device is called.
  static std::string NameOn(const std::string& name, uint32_t device) {
    return device == 0 ? name : name + "@" + std::to_string(device);
  }

  uint32_t AddBuffer(const LoweredValue& value, std::string_view name, uint32_t device) {
    Buffer buffer;
    buffer.device = device;
    buffer.name = Text(name);
    buffer.kind = value.kind;
    buffer.dtype = value.dtype;
    buffer.shape = value.shape;
    buffer.bytes = static_cast<uint64_t>(value.bytes);
    buffer.alignment = kArenaAlignment;
    buffer.source = Source(value.sources);
    buffers_.push_back(buffer);
    out_.constant_bytes.emplace_back();
    return static_cast<uint32_t>(buffers_.size() - 1);
  }

  // State is one over all programs that have an input (or, without one, an output) of its name, dtype and
  // shape on its device.
  void AddStates() {
    std::map<std::tuple<std::string, DType, std::vector<int64_t>, uint32_t>, uint32_t> known;
    for (size_t p = 0; p < programs_.size(); ++p) {
      const LoweredProgram& program = programs_[p].lowered;
      std::vector<std::string> names(program.values.size());
      for (const auto* ports : {&program.outputs, &program.inputs}) {
        for (const LoweredPort& port : *ports) {
          if (port.is_state) names[static_cast<size_t>(port.value)] = port.name;
        }
      }
      for (size_t v = 0; v < program.values.size(); ++v) {
        const LoweredValue& value = program.values[v];
        if (value.kind != BufferKind::kState) continue;
        const std::string& name = names[v].empty() ? value.name : names[v];
        const std::vector<int64_t> dims(value.shape.begin(), value.shape.end());
        const uint32_t device = programs_[p].device;
        const auto [entry, added] = known.try_emplace({name, value.dtype, dims, device}, kNone);
        if (added) entry->second = AddBuffer(value, NameOn(name, device), device);
        value_buffers_[p][v] = entry->second;
      }
    }
  }

  // Constants that some op binds, in the order in which they are first bound: one buffer a device, whose
  // bytes are in the file once.
  void AddConstants() {
    WeightTable table;
    std::vector<uint32_t> first_of;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> buffer_of;  // (number in the table, device)
    for (size_t p = 0; p < programs_.size(); ++p) {
      const LoweredProgram& program = programs_[p].lowered;
      for (const LoweredOp& op : program.ops) {
        for (const LoweredBinding& param : op.params) {
          const size_t v = static_cast<size_t>(param.value);
          const LoweredValue& value = program.values[v];
          if (value.kind != BufferKind::kConstant || value_buffers_[p][v] != kNone) continue;
          const uint32_t number = table.Add(value.constant);
          const auto [entry, added] = buffer_of.try_emplace({number, programs_[p].device}, kNone);
          if (added) {
            entry->second = AddConstant(value, programs_[p].device);
            if (number == first_of.size()) first_of.push_back(entry->second);
            same_as_.resize(buffers_.size(), kNone);
            if (first_of[number] != entry->second) same_as_[entry->second] = first_of[number];
          } else {
            ++shared_constants_;
          }
          value_buffers_[p][v] = entry->second;
        }
      }
    }
  }

  uint32_t AddConstant(const LoweredValue& value, uint32_t device) {
    const ir::ConstantData& data = *value.constant;
    const uint32_t index = AddBuffer(value, value.name.empty() ? data.name : value.name, device);
    Buffer& buffer = buffers_[index];
    if (data.synthetic) {
      buffer.weight = WeightSource::kSynthetic;
      buffer.synthetic_key = data.synthetic_key;
      buffer.synthetic_scale = data.synthetic_scale;
    } else {
      out_.constant_bytes[index] = Span<const uint8_t>(data.bytes.data(), data.bytes.size());
    }
    out_.keep.push_back(value.constant);
    return index;
  }

  void AddProgramBuffers(const Group& group) {
    uint32_t steps = 0, first_step = 0;
    for (size_t p = group.first; p < group.end; ++p) {
      steps += static_cast<uint32_t>(programs_[p].lowered.ops.size());
    }
    for (size_t p = group.first; p < group.end; ++p) {
      AddDeviceBuffers(p, group.index, first_step, steps);
      first_step += static_cast<uint32_t>(programs_[p].lowered.ops.size());
    }
  }

  // Inputs, outputs, then temporaries that some op touches. The device's steps begin at `first_step` of all
  // `steps`; inputs live from the first of all on, outputs to the last.
  void AddDeviceBuffers(size_t p, uint32_t program_index, uint32_t first_step, uint32_t steps) {
    const LoweredProgram& program = programs_[p].lowered;
    const MemoryPlan& memory = programs_[p].memory;
    auto& buffer_of = value_buffers_[p];
    for (BufferKind kind :
         {BufferKind::kInput, BufferKind::kOutput, BufferKind::kTemporary, BufferKind::kWorkspace}) {
      for (size_t v = 0; v < program.values.size(); ++v) {
        const LoweredValue& value = program.values[v];
        const Life& life = memory.lives[v];
        if (value.kind != kind) continue;
        const bool is_port = kind == BufferKind::kInput || kind == BufferKind::kOutput;
        if (!is_port && !life.used()) continue;
        buffer_of[v] = AddBuffer(value, value.name, programs_[p].device);
        Buffer& buffer = buffers_[buffer_of[v]];
        buffer.program = program_index;
        buffer.offset = static_cast<uint64_t>(memory.offsets[v]);
        buffer.first_step = static_cast<uint32_t>(life.first);
        buffer.last_step = static_cast<uint32_t>(life.last);
        if (kind == BufferKind::kWorkspace) {
          uint64_t& workspace = devices_[programs_[p].device].workspace;
          workspace = std::max(workspace, buffer.bytes);
        }
        if (!life.used()) continue;
        buffer.first_step = kind == BufferKind::kInput ? 0 : buffer.first_step + first_step;
        buffer.last_step = kind == BufferKind::kOutput ? steps - 1 : buffer.last_step + first_step;
      }
    }
    for (size_t v = 0; v < program.values.size(); ++v) {
      if (buffer_of[v] == kNone || memory.takes_over[v] < 0) continue;
      buffers_[buffer_of[v]].aliases = buffer_of[static_cast<size_t>(memory.takes_over[v])];
    }
  }

  // Offsets of state and weights on their devices, and of the weights in their file.
  void LayOutShared() {
    same_as_.resize(buffers_.size(), kNone);
    out_.plan.weights_bytes = LayOutWeights(Span<Buffer>(buffers_), Span<const uint32_t>(same_as_));
    for (Buffer& buffer : buffers_) {
      DeviceBytes& device = devices_[buffer.device];
      if (buffer.kind == BufferKind::kState) {
        buffer.offset = device.state;
        buffer.alignment = kStateAlignment;
        device.state = RoundUp(device.state + buffer.bytes, kStateAlignment);
      } else if (buffer.kind == BufferKind::kConstant) {
        buffer.offset = RoundUp(device.weights, WeightAlignment(buffer.bytes));
        device.weights = buffer.offset + buffer.bytes;
        if (buffer.weight == WeightSource::kSynthetic) synthetic_bytes_ += buffer.bytes;
      }
    }
  }

  uint32_t BufferOf(size_t p, const LoweredPort& port) const {
    return value_buffers_[p][static_cast<size_t>(port.value)];
  }

  // An input is one port for all devices that have it; each device's state is a port of its own.
  Result<Span<const Port>> Inputs(const Group& group) {
    std::vector<Port> ports;
    std::vector<std::vector<uint32_t>> replicas;
    std::map<std::string, size_t> known;
    for (size_t p = group.first; p < group.end; ++p) {
      for (const LoweredPort& port : programs_[p].lowered.inputs) {
        const uint32_t buffer = BufferOf(p, port);
        const auto [entry, added] = known.try_emplace(
            port.is_state ? NameOn(port.name, programs_[p].device) : port.name, ports.size());
        if (added) {
          ports.push_back({Text(entry->first), buffer, port.is_state, {}});
          replicas.emplace_back();
          continue;
        }
        const Buffer &first = buffers_[ports[entry->second].buffer], &other = buffers_[buffer];
        if (!(first.shape == other.shape) || first.dtype != other.dtype) {
          return Status::Error(
              Code::kInvalidArgument,
              "program \"%s\": devices disagree about input \"%s\": it is %s on device %u, %s "
              "on device %u",
              programs_[p].lowered.name.c_str(), port.name.c_str(), TensorText(first).c_str(), first.device,
              TensorText(other).c_str(), other.device);
        }
        replicas[entry->second].push_back(buffer);
      }
    }
    for (size_t i = 0; i < ports.size(); ++i) ports[i].replicas = out_.arena->Copy(replicas[i]);
    return Span<const Port>(out_.arena->Copy(ports));
  }

  Span<const Port> Outputs(const Group& group) {
    std::vector<Port> ports;
    for (size_t p = group.first; p < group.end; ++p) {
      for (const LoweredPort& port : programs_[p].lowered.outputs) {
        ports.push_back({Text(NameOn(port.name, programs_[p].device)), BufferOf(p, port), port.is_state, {}});
      }
    }
    return out_.arena->Copy(ports);
  }

  static std::string TensorText(const Buffer& buffer) {
    char shape[160];
    return std::string(Name(buffer.dtype)) + " " + Format(buffer.shape, shape, sizeof shape);
  }

  // Deps of an op that no value both touch implies.
  static std::vector<uint32_t> ControlDeps(const LoweredProgram& program, const LoweredOp& op,
                                           uint32_t first_step) {
    std::vector<uint32_t> after;
    for (int d : op.deps) {
      const LoweredOp& before = program.ops[static_cast<size_t>(d)];
      const bool implied = std::any_of(op.params.begin(), op.params.end(), [&](const LoweredBinding& a) {
        return std::any_of(before.params.begin(), before.params.end(), [&](const LoweredBinding& b) {
          return a.value == b.value && (a.mode != Mode::kRead || b.mode != Mode::kRead);
        });
      });
      if (!implied) after.push_back(static_cast<uint32_t>(d) + first_step);
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    return after;
  }

  Step StepOf(size_t p, const LoweredOp& op, uint32_t first_step) {
    Step step;
    step.device = programs_[p].device;
    step.after = out_.arena->Copy(ControlDeps(programs_[p].lowered, op, first_step));
    step.source = Source(op.sources);
    if (op.kind == LoweredKind::kCall) return CallOf(p, op, std::move(step));
    if (op.kind == LoweredKind::kKernel) {
      step.kernel = kernels_.Add(op.kernel);
      out_.library.resize(kernels_.kernels().size());
      out_.library[step.kernel] = op.library;
    } else {
      step.sync_point = static_cast<uint32_t>(op.collective);
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

  // One binding an argument; an output that is an input's memory is bound where that input is.
  Step CallOf(size_t p, const LoweredOp& op, Step step) {
    const CustomOp& call = op.call->op;
    step.kind = StepKind::kCustom;
    const auto [entry, added] =
        custom_of_.try_emplace(op.call->key, static_cast<uint32_t>(custom_ops_.size()));
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

  // The partitions of one device, which follow those of the devices before it.
  void AddPartitions(const PlannedProgram& planned, uint32_t first_step, bool last_device,
                     std::vector<Partition>* partitions) {
    for (const PlannedPartition& partition : planned.partitions) {
      partitions->push_back({planned.device, partition.first_step + first_step, partition.num_steps,
                             partition.reason, Text(partition.detail)});
    }
    if (last_device || planned.partitions.empty()) return;
    partitions->back().reason = BreakReason::kDeviceChange;
    partitions->back().detail = Text("the steps of device " + std::to_string(planned.device) + " end");
  }

  Result<Span<const SyncPoint>> SyncPoints(const Group& group) {
    std::vector<const LoweredProgram*> devices;
    std::vector<uint32_t> participants;
    for (size_t p = group.first; p < group.end; ++p) {
      devices.push_back(&programs_[p].lowered);
      participants.push_back(programs_[p].device);
    }
    RONDO_ASSIGN_OR_RETURN(std::vector<PlannedSyncPoint> planned, SyncPointsOf(devices));
    std::vector<SyncPoint> points;
    const Span<const uint32_t> all = out_.arena->Copy(participants);
    for (const PlannedSyncPoint& point : planned) {
      points.push_back({point.collective.op, point.collective.dtype,
                        static_cast<uint64_t>(point.collective.bytes), 0, all, Source(point.sources)});
    }
    return Span<const SyncPoint>(out_.arena->Copy(points));
  }

  Status AddProgram(const Group& group) {
    Program program;
    program.name = Text(programs_[group.first].lowered.name);
    RONDO_ASSIGN_OR_RETURN(program.inputs, Inputs(group));
    program.outputs = Outputs(group);
    RONDO_ASSIGN_OR_RETURN(program.sync_points, SyncPoints(group));
    std::vector<Step> steps;
    std::vector<Partition> partitions;
    std::vector<Loop> loops;
    for (size_t p = group.first; p < group.end; ++p) {
      const PlannedProgram& planned = programs_[p];
      const auto first_step = static_cast<uint32_t>(steps.size());
      int loop = -1;
      for (const LoweredOp& op : planned.lowered.ops) {
        if (op.loop >= 0 && op.loop != loop) {
          loops.push_back({static_cast<uint32_t>(steps.size()), 0,
                           static_cast<uint32_t>(planned.lowered.loops[static_cast<size_t>(op.loop)])});
        }
        loop = op.loop;
        if (loop >= 0) ++loops.back().num_steps;
        steps.push_back(StepOf(p, op, first_step));
      }
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

  // What the plan needs beside its memory; the verifier holds it to that.
  void StateNeeds() {
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

  void Finish(EmitReport* report) {
    PlanData& plan = out_.plan;
    std::vector<Kernel> kernels = kernels_.kernels();
    for (size_t k = 0; k < kernels.size(); ++k) {
      kernels[k].name = Text(KernelName(kernels[k], static_cast<uint32_t>(k)));
    }
    plan.producer = "rondo 0.1.0";
    plan.requirements.target = Text(options_.target);
    if (devices_.empty()) devices_.emplace_back();
    for (uint32_t d = 0; d < devices_.size() && options_.target != "host"; ++d) {
      devices_[d].communicator = CommunicatorBytes(Span<const Program>(plan_programs_), d);
    }
    plan.requirements.devices = out_.arena->Copy(devices_);
    plan.sources = out_.arena->Copy(sources_);
    plan.buffers = out_.arena->Copy(buffers_);
    plan.kernels = out_.arena->Copy(kernels);
    plan.programs = out_.arena->Copy(plan_programs_);
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

  std::vector<PlannedProgram> programs_;
  EmitOptions options_;
  EmittedPlan out_;
  std::vector<std::vector<uint32_t>> value_buffers_;  // per program and value: its buffer
  std::vector<Buffer> buffers_;
  std::vector<Program> plan_programs_;
  std::vector<CustomOp> custom_ops_;
  std::map<std::string, uint32_t> custom_of_;  // by CallInfo::key
  KernelTable kernels_;
  std::map<std::string, uint32_t> source_numbers_;
  std::vector<std::string_view> sources_;
  std::vector<Group> groups_;
  std::vector<DeviceBytes> devices_;
  std::vector<uint32_t> same_as_;  // of a constant whose bytes another buffer has in the file: that one
  uint64_t synthetic_bytes_ = 0;
  uint32_t shared_constants_ = 0;
};

}  // namespace

Result<EmittedPlan> EmitPlan(std::vector<PlannedProgram> programs, const EmitOptions& options,
                             EmitReport* report) {
  return Emitter(std::move(programs), options).Emit(report);
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
