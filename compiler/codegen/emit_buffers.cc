// Emits a plan's buffers: states and constants, which all programs share, each program's own buffers, and
// where they lie.
#include <algorithm>
#include <map>
#include <tuple>

#include "compiler/codegen/plan_emitter.h"
#include "compiler/codegen/weight_table.h"
#include "formats/plan/copies.h"
#include "formats/plan/writer.h"

namespace rondo {

namespace {

// The alignment of a constant among the weights. Large ones start at a page, as in the file.
uint64_t WeightAlignment(uint64_t bytes) { return bytes >= 4096 ? 4096 : 64; }

}  // namespace

uint32_t PlanEmitter::AddBuffer(const LoweredValue& value, std::string_view name, uint32_t device) {
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

// Programs share one state buffer if their inputs (or outputs, where there is no input) have the same name,
// dtype, shape and device.
void PlanEmitter::AddStates() {
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
      if (added) entry->second = AddBuffer(value, NameOn(name, p), device);
      value_buffers_[p][v] = entry->second;
    }
  }
}

// Adds the constants that some op binds, in the order of their first use. Each device has a buffer; the file
// holds the bytes once.
void PlanEmitter::AddConstants() {
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

uint32_t PlanEmitter::AddConstant(const LoweredValue& value, uint32_t device) {
  const ir::ConstantData& data = *value.constant;
  const uint32_t index = AddBuffer(value, value.name.empty() ? data.name : value.name, device);
  Buffer& buffer = buffers_[index];
  if (data.synthetic) {
    buffer.weight = WeightSource::kSynthetic;
    buffer.synthetic_key = data.synthetic_key;
    buffer.synthetic_scale = data.synthetic_scale;
    buffer.synthetic_run = static_cast<uint64_t>(data.synthetic_run);
    buffer.synthetic_step = static_cast<uint64_t>(data.synthetic_step);
  } else {
    out_.constant_bytes[index] = Span<const uint8_t>(data.bytes.data(), data.bytes.size());
  }
  out_.keep.push_back(value.constant);
  return index;
}

void PlanEmitter::AddProgramBuffers(const Group& group) {
  uint32_t steps = 0, first_step = 0;
  for (size_t p = group.first; p < group.end; ++p) {
    steps += static_cast<uint32_t>(programs_[p].lowered.ops.size());
  }
  for (size_t p = group.first; p < group.end; ++p) {
    AddDeviceBuffers(p, group.index, first_step, steps);
    first_step += static_cast<uint32_t>(programs_[p].lowered.ops.size());
  }
}

// Adds a device's inputs, outputs, and the temporaries that some op touches. The device's steps begin at
// `first_step` of all `steps`. Inputs live from step 0, outputs to the last step.
void PlanEmitter::AddDeviceBuffers(size_t p, uint32_t program_index, uint32_t first_step, uint32_t steps) {
  const LoweredProgram& program = programs_[p].lowered;
  const MemoryPlan& memory = programs_[p].memory;
  auto& buffer_of = value_buffers_[p];
  for (BufferKind kind : {BufferKind::kInput, BufferKind::kUpdatedInput, BufferKind::kOutput,
                          BufferKind::kTemporary, BufferKind::kWorkspace}) {
    for (size_t v = 0; v < program.values.size(); ++v) {
      const LoweredValue& value = program.values[v];
      const Life& life = memory.lives[v];
      if (value.kind != kind) continue;
      const bool is_port = IsInput(kind) || IsOutput(kind);
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
      buffer.first_step = IsInput(kind) ? 0 : buffer.first_step + first_step;
      buffer.last_step = IsOutput(kind) ? steps - 1 : buffer.last_step + first_step;
    }
  }
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (buffer_of[v] == kNone || memory.takes_over[v] < 0) continue;
    buffers_[buffer_of[v]].aliases = buffer_of[static_cast<size_t>(memory.takes_over[v])];
  }
  for (size_t v = 0; v < program.values.size(); ++v) {
    const LoweredValue& value = program.values[v];
    const auto takes = [&](int other) { return other == static_cast<int>(v); };
    if (value.kind != BufferKind::kInput || !value.donated ||
        std::any_of(memory.takes_over.begin(), memory.takes_over.end(), takes))
      continue;
    const char* untaken = "what touches it and its output are not one after the other";
    reasons_.push_back(DonatedInput(program.name, value.name) +
                       (value.kept_because.empty() ? untaken : value.kept_because));
  }
}

// Sets the offsets of state and weights on their devices, and of the weights in their file.
void PlanEmitter::LayOutShared() {
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

}  // namespace rondo
