#include "compiler/codegen/emit.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "compiler/codegen/kernel_table.h"
#include "compiler/codegen/lowered_rules.h"
#include "compiler/codegen/weight_table.h"
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
    out_.arena = std::make_shared<Arena>();
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
    AddStates();
    AddConstants();
    for (size_t p = 0; p < programs_.size(); ++p) AddProgramBuffers(p);
    LayOutShared();
    for (size_t p = 0; p < programs_.size(); ++p) AddProgram(p);
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

  uint32_t AddBuffer(const LoweredValue& value, std::string_view name) {
    Buffer buffer;
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
  // shape.
  void AddStates() {
    std::map<std::tuple<std::string, DType, std::vector<int64_t>>, uint32_t> known;
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
        const auto [entry, added] = known.try_emplace({name, value.dtype, dims}, kNone);
        if (added) entry->second = AddBuffer(value, name);
        value_buffers_[p][v] = entry->second;
      }
    }
  }

  // Constants that some op binds, in the order in which they are first bound.
  void AddConstants() {
    WeightTable table;
    std::vector<uint32_t> buffer_of;
    for (size_t p = 0; p < programs_.size(); ++p) {
      const LoweredProgram& program = programs_[p].lowered;
      for (const LoweredOp& op : program.ops) {
        for (const LoweredBinding& param : op.params) {
          const size_t v = static_cast<size_t>(param.value);
          const LoweredValue& value = program.values[v];
          if (value.kind != BufferKind::kConstant || value_buffers_[p][v] != kNone) continue;
          const uint32_t number = table.Add(value.constant);
          if (number == buffer_of.size()) {
            buffer_of.push_back(AddConstant(value));
          } else {
            ++shared_constants_;
          }
          value_buffers_[p][v] = buffer_of[number];
        }
      }
    }
  }

  uint32_t AddConstant(const LoweredValue& value) {
    const ir::ConstantData& data = *value.constant;
    const uint32_t index = AddBuffer(value, value.name.empty() ? data.name : value.name);
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

  // Inputs, outputs, then temporaries that some op touches.
  void AddProgramBuffers(size_t p) {
    const LoweredProgram& program = programs_[p].lowered;
    const MemoryPlan& memory = programs_[p].memory;
    auto& buffer_of = value_buffers_[p];
    for (BufferKind kind :
         {BufferKind::kInput, BufferKind::kOutput, BufferKind::kTemporary, BufferKind::kWorkspace}) {
      for (size_t v = 0; v < program.values.size(); ++v) {
        const LoweredValue& value = program.values[v];
        if (value.kind != kind) continue;
        const bool is_port = kind == BufferKind::kInput || kind == BufferKind::kOutput;
        if (!is_port && !memory.lives[v].used()) continue;
        buffer_of[v] = AddBuffer(value, value.name);
        Buffer& buffer = buffers_[buffer_of[v]];
        buffer.program = static_cast<uint32_t>(p);
        buffer.offset = static_cast<uint64_t>(memory.offsets[v]);
        buffer.first_step = static_cast<uint32_t>(memory.lives[v].first);
        buffer.last_step = static_cast<uint32_t>(memory.lives[v].last);
        if (kind == BufferKind::kWorkspace) workspace_ = std::max(workspace_, buffer.bytes);
      }
    }
    for (size_t v = 0; v < program.values.size(); ++v) {
      if (buffer_of[v] == kNone || memory.takes_over[v] < 0) continue;
      buffers_[buffer_of[v]].aliases = buffer_of[static_cast<size_t>(memory.takes_over[v])];
    }
  }

  // Offsets of state and weights on the device, and of the weights in their file.
  void LayOutShared() {
    out_.plan.weights_bytes = LayOutWeights(Span<Buffer>(buffers_), {});
    for (Buffer& buffer : buffers_) {
      if (buffer.kind == BufferKind::kState) {
        buffer.offset = state_bytes_;
        buffer.alignment = kStateAlignment;
        state_bytes_ = RoundUp(state_bytes_ + buffer.bytes, kStateAlignment);
      } else if (buffer.kind == BufferKind::kConstant) {
        buffer.offset = RoundUp(device_weights_, WeightAlignment(buffer.bytes));
        device_weights_ = buffer.offset + buffer.bytes;
        if (buffer.weight == WeightSource::kSynthetic) synthetic_bytes_ += buffer.bytes;
      }
    }
  }

  Span<const Port> Ports(size_t p, const std::vector<LoweredPort>& ports) {
    std::vector<Port> out;
    for (const LoweredPort& port : ports) {
      out.push_back({Text(port.name), value_buffers_[p][static_cast<size_t>(port.value)], port.is_state});
    }
    return out_.arena->Copy(out);
  }

  // Deps of an op that no value both touch implies.
  static std::vector<uint32_t> ControlDeps(const LoweredProgram& program, const LoweredOp& op) {
    std::vector<uint32_t> after;
    for (int d : op.deps) {
      const LoweredOp& before = program.ops[static_cast<size_t>(d)];
      const bool implied = std::any_of(op.params.begin(), op.params.end(), [&](const LoweredBinding& a) {
        return std::any_of(before.params.begin(), before.params.end(), [&](const LoweredBinding& b) {
          return a.value == b.value && (a.mode != Mode::kRead || b.mode != Mode::kRead);
        });
      });
      if (!implied) after.push_back(static_cast<uint32_t>(d));
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    return after;
  }

  void AddProgram(size_t p) {
    const PlannedProgram& planned = programs_[p];
    const LoweredProgram& lowered = planned.lowered;
    Program program;
    program.name = Text(lowered.name);
    program.inputs = Ports(p, lowered.inputs);
    program.outputs = Ports(p, lowered.outputs);
    std::vector<Step> steps;
    for (const LoweredOp& op : lowered.ops) {
      Step step;
      step.kernel = kernels_.Add(op.kernel);
      std::vector<Binding> bindings;
      for (const LoweredBinding& param : op.params) {
        bindings.push_back({value_buffers_[p][static_cast<size_t>(param.value)], param.byte_offset});
      }
      step.bindings = out_.arena->Copy(bindings);
      step.after = out_.arena->Copy(ControlDeps(lowered, op));
      step.source = Source(op.sources);
      steps.push_back(step);
    }
    program.steps = out_.arena->Copy(steps);
    std::vector<Partition> partitions;
    for (const PlannedPartition& partition : planned.partitions) {
      partitions.push_back({partition.device, partition.first_step, partition.num_steps, partition.reason,
                            Text(partition.detail)});
    }
    program.partitions = out_.arena->Copy(partitions);
    program.arena_lower_bound = static_cast<uint64_t>(planned.memory.lower_bound);
    program.arena_bytes = static_cast<uint64_t>(planned.memory.arena_bytes);
    arena_bytes_ = std::max(arena_bytes_, program.arena_bytes);
    plan_programs_.push_back(program);
    out_.keep.push_back(lowered.arena);
  }

  void Finish(EmitReport* report) {
    PlanData& plan = out_.plan;
    std::vector<Kernel> kernels = kernels_.kernels();
    for (size_t k = 0; k < kernels.size(); ++k) {
      kernels[k].name = Text(KernelName(kernels[k], static_cast<uint32_t>(k)));
    }
    plan.producer = "rondo 0.1.0";
    plan.requirements.target = Text(options_.target);
    const DeviceBytes device = {device_weights_, arena_bytes_, state_bytes_, workspace_, 0};
    plan.requirements.devices = out_.arena->Copy(std::vector<DeviceBytes>{device});
    plan.sources = out_.arena->Copy(sources_);
    plan.buffers = out_.arena->Copy(buffers_);
    plan.kernels = out_.arena->Copy(kernels);
    plan.programs = out_.arena->Copy(plan_programs_);
    plan.weights_file = Text(options_.weights_file);
    if (report == nullptr) return;
    report->weights_bytes = plan.weights_bytes;
    report->synthetic_bytes = synthetic_bytes_;
    report->state_bytes = state_bytes_;
    report->arena_bytes = arena_bytes_;
    report->shared_constants = shared_constants_;
    report->kernels = static_cast<uint32_t>(kernels.size());
    size_t steps = 0;
    for (const Program& program : plan.programs) steps += program.steps.size();
    report->text = std::to_string(steps) + " steps of " + std::to_string(kernels.size()) +
                   " kernels; weights " + std::to_string(plan.weights_bytes) + " bytes and " +
                   std::to_string(synthetic_bytes_) + " synthetic, " + std::to_string(shared_constants_) +
                   " shared; state " + std::to_string(state_bytes_) + " bytes";
  }

  std::vector<PlannedProgram> programs_;
  EmitOptions options_;
  EmittedPlan out_;
  std::vector<std::vector<uint32_t>> value_buffers_;  // per program and value: its buffer
  std::vector<Buffer> buffers_;
  std::vector<Program> plan_programs_;
  KernelTable kernels_;
  std::map<std::string, uint32_t> source_numbers_;
  std::vector<std::string_view> sources_;
  uint64_t arena_bytes_ = 0, state_bytes_ = 0, device_weights_ = 0, synthetic_bytes_ = 0, workspace_ = 0;
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
