// The memory of ports: which steps use it, and how graphs get a run's addresses.
#include "runtime/session_impl.h"

namespace rondo {
namespace {

enum class Use : uint8_t { kNone, kMovable, kFixed };

// How a step uses a port's memory. In a loop, the step is several nodes. The plan checker has checked that an
// input is written only if its user gives it away.
Use UseOf(const PlanData& data, const Program& program, uint32_t index, uint32_t buffer) {
  const Step& step = program.steps[index];
  for (const Binding& binding : step.bindings) {
    if (OwnerOf(data, binding.buffer) != buffer) continue;
    if (LoopOf(program, index) != nullptr) return Use::kFixed;
    return step.kind == StepKind::kLaunch || step.kind == StepKind::kCopy ? Use::kMovable : Use::kFixed;
  }
  return Use::kNone;
}

// Whether a buffer and the buffers that take over its memory lie within this memory, with at most one output
// port.
bool StandsAlone(const PlanData& data, const Program& program, uint32_t buffer) {
  const Buffer& own = data.buffers[buffer];
  for (uint32_t b = 0; b < data.buffers.size(); ++b) {
    const Buffer& other = data.buffers[b];
    const bool within = other.offset == own.offset && other.bytes <= own.bytes;
    if (!within && other.aliases != kNone && OwnerOf(data, b) == buffer) return false;
  }
  uint32_t outputs = 0;
  for (const Port& port : program.outputs) outputs += OwnerOf(data, port.buffer) == buffer;
  return own.aliases == kNone && outputs <= 1;
}

Status TellStep(SessionImpl* session, uint32_t program_index, uint32_t index) {
  const Program& program = session->plan.data().programs[program_index];
  ArmedProgram& armed = session->programs[program_index];
  const uint32_t partition = PartitionOf(program, index);
  const Span<DeviceAddress> addresses = armed.steps[index].addresses;
  armed.steps[index].moved = false;
  return session->devices[program.steps[index].device].device->SetAddresses(
      armed.partitions[partition].graph, NodeOf(program, program.partitions[partition], index),
      {addresses.data(), addresses.size()});
}

Status FindSteps(SessionImpl* session, uint32_t program_index, const Port& port, ArmedPort* armed) {
  const PlanData& data = session->plan.data();
  const Program& program = data.programs[program_index];
  armed->at = session->addresses[port.buffer];
  if (port.is_state || !StandsAlone(data, program, port.buffer)) return Status::Ok();
  if (session->devices[data.buffers[port.buffer].device].device == nullptr) return Status::Ok();
  size_t count = 0;
  for (uint32_t s = 0; s < program.steps.size(); ++s) {
    const Use use = UseOf(data, program, s, port.buffer);
    if (use == Use::kFixed) return Status::Ok();
    if (use == Use::kNone) continue;
    // Sets the node's current addresses, to find out whether that is possible.
    const Status told = TellStep(session, program_index, s);
    if (told.code() == Code::kUnsupported) return Status::Ok();
    if (!told.ok()) return AtStep(session, told, program_index, s);
    ++count;
  }
  Span<uint32_t> steps = session->memory.New<uint32_t>(count);
  if (steps.data() == nullptr) {
    return Status::Error(Code::kOutOfMemory, "no host memory for the steps of a port");
  }
  for (uint32_t s = 0; count != 0; ++s) {
    if (UseOf(data, program, s, port.buffer) != Use::kNone) steps[steps.size() - count--] = s;
  }
  armed->steps = steps;
  return Status::Ok();
}

}  // namespace

uint32_t OwnerOf(const PlanData& data, uint32_t buffer) {
  while (buffer != kNone && data.buffers[buffer].aliases != kNone) buffer = data.buffers[buffer].aliases;
  return buffer;
}

Status FindPortSteps(SessionImpl* session, uint32_t program_index) {
  if (!session->runtime_impl->driver->Info().rebinds) return Status::Ok();
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    RONDO_RETURN_IF_ERROR(FindSteps(session, program_index, program.inputs[i], &armed.inputs[i]));
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    // An input that is also an output lies in the input's place.
    if (IsInput(session->plan.data().buffers[program.outputs[i].buffer].kind)) continue;
    RONDO_RETURN_IF_ERROR(FindSteps(session, program_index, program.outputs[i], &armed.outputs[i]));
  }
  return Status::Ok();
}

// Each device's launch thread calls this for its own devices. It must not read anything of another device.
Status PlacePorts(SessionImpl* session, uint32_t program_index, uint64_t devices) {
  const PlanData& data = session->plan.data();
  const Program& program = data.programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  bool moved = false;
  const auto place = [&](const Port& port, ArmedPort& to) {
    if (to.steps.empty() || !Has(devices, data.buffers[port.buffer].device)) return;
    const DeviceAddress at = to.bound.direct ? to.bound.address() : session->addresses[port.buffer];
    if (at == to.at) return;
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      if (OwnerOf(data, program.outputs[o].buffer) == port.buffer) armed.outputs[o].at = at;
    }
    to.at = at;
    moved = true;
    for (uint32_t s : to.steps) {
      const Span<const Binding> bindings = program.steps[s].bindings;
      for (size_t b = 0; b < bindings.size(); ++b) {
        if (OwnerOf(data, bindings[b].buffer) == port.buffer)
          armed.steps[s].addresses[b] = at + bindings[b].offset;
      }
      armed.steps[s].moved = true;
    }
  };
  for (size_t i = 0; i < program.inputs.size(); ++i) place(program.inputs[i], armed.inputs[i]);
  for (size_t i = 0; i < program.outputs.size(); ++i) place(program.outputs[i], armed.outputs[i]);
  for (uint32_t s = 0; moved && s < program.steps.size(); ++s) {
    if (!Has(devices, program.steps[s].device) || !armed.steps[s].moved) continue;
    RONDO_RETURN_IF_ERROR(AtStep(session, TellStep(session, program_index, s), program_index, s));
  }
  return Status::Ok();
}

}  // namespace rondo
