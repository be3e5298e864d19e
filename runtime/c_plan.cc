// The C interface to plans.
#include <algorithm>

#include "formats/plan/device_memory.h"
#include "runtime/c_handles.h"
#include "runtime/host_memory.h"

using rondo::Code;
using rondo::FillStruct;
using rondo::NullError;
using rondo::PlanData;
using rondo::Port;
using rondo::Program;
using rondo::Result;
using rondo::SizeError;
using rondo::Span;
using rondo::Status;
using rondo::ToError;
using rondo::Widen;

namespace {

Status NoMemory() { return Status::Error(Code::kOutOfMemory, "no host memory for a plan's names"); }

Status CopyPortNames(rondo_plan* handle, Span<const Port> ports, Span<const char*>* names) {
  *names = handle->memory.New<const char*>(ports.size());
  if (names->data() == nullptr) return NoMemory();
  for (size_t i = 0; i < ports.size(); ++i) {
    (*names)[i] = handle->memory.CopyText(ports[i].name).data();
    if ((*names)[i] == nullptr) return NoMemory();
  }
  return Status::Ok();
}

// Texts in a plan have no terminating 0; the C interface's texts have one.
Status CopyNames(rondo_plan* handle) {
  const PlanData& data = handle->plan.data();
  size_t count = data.programs.size();
  handle->target = handle->memory.CopyText(data.requirements.target).data();
  handle->programs = handle->memory.New<const char*>(count);
  for (auto& ports : handle->ports) {
    ports = handle->memory.New<Span<const char*>>(count);
    if (ports.data() == nullptr) return NoMemory();
  }
  if (handle->target == nullptr || handle->programs.data() == nullptr) return NoMemory();
  for (size_t i = 0; i < count; ++i) {
    const Program& program = data.programs[i];
    handle->programs[i] = handle->memory.CopyText(program.name).data();
    if (handle->programs[i] == nullptr) return NoMemory();
    RONDO_RETURN_IF_ERROR(CopyPortNames(handle, program.inputs, &handle->ports[RONDO_INPUT][i]));
    RONDO_RETURN_IF_ERROR(CopyPortNames(handle, program.outputs, &handle->ports[RONDO_OUTPUT][i]));
  }
  return Status::Ok();
}

// Opens the file, or `bytes` if `path` is null.
rondo_error* OpenPlan(const char* path, Span<const uint8_t> bytes, const rondo_plan_options* given,
                      rondo_plan** out) {
  rondo_plan_options full;
  if (!Widen(given, &full)) return SizeError("rondo_plan_options");
  rondo::HostAllocator allocator = rondo::AllocatorOf(full.allocator);
  rondo::PlanOptions options;
  options.allocator = &allocator;
  options.ignore_hashes = full.ignore_hashes != 0;
  if (full.read_weights != 0 && full.map_weights != 0) {
    return ToError(
        Status::Error(Code::kInvalidArgument, "rondo_plan_options: both read_weights and map_weights"));
  }
  if (full.read_weights != 0) options.map_weights_from = rondo::kReadWeights;
  if (full.map_weights != 0) options.map_weights_from = 0;
  if (full.name != nullptr) options.name = full.name;
  rondo::LogTarget target{full.log, full.log_user};
  options.log = target.Hook(full.least_log_level);
  Result<rondo::Plan> plan =
      path != nullptr ? rondo::Plan::Open(path, options) : rondo::Plan::Open(bytes, options);
  if (!plan.ok()) return ToError(plan.status());
  rondo_plan* handle = rondo::NewObject<rondo_plan>(rondo::DefaultHostAllocator(), allocator);
  if (handle == nullptr) return ToError(NoMemory());
  handle->plan = plan.Take();
  Status status = CopyNames(handle);
  if (!status.ok()) {
    rondo_plan_destroy(handle);
    return ToError(status);
  }
  *out = handle;
  return nullptr;
}

Span<const Port> PortsOf(const rondo_plan* plan, uint32_t program, rondo_direction direction) {
  const PlanData& data = plan->plan.data();
  if (program >= data.programs.size()) return {};
  return direction == RONDO_INPUT ? data.programs[program].inputs : data.programs[program].outputs;
}

// The port must exist. False: `port` is of a size that cannot hold it.
bool FillPort(const rondo_plan* plan, uint32_t program, rondo_direction direction, uint32_t index,
              rondo_port* port) {
  const Port& from = PortsOf(plan, program, direction)[index];
  const rondo::Buffer& buffer = plan->plan.data().buffers[from.buffer];
  rondo_port full = {};
  full.name = plan->ports[direction][program][index];
  full.dtype = static_cast<rondo_dtype>(buffer.dtype);
  full.rank = static_cast<uint32_t>(buffer.shape.rank);
  if (full.rank > RONDO_PORT_DIMS && port->size < sizeof full) return false;
  std::copy_n(buffer.shape.dims, RONDO_PORT_DIMS, full.dims);
  full.all_dims = buffer.shape.dims;
  full.bytes = buffer.bytes;
  full.is_state = from.is_state ? 1 : 0;
  full.device = buffer.device;
  return FillStruct(full, port);
}

rondo_error* CheckPlace(const rondo_plan* plan, uint32_t program, rondo_direction direction) {
  if (direction != RONDO_INPUT && direction != RONDO_OUTPUT) {
    return ToError(Status::Error(Code::kInvalidArgument,
                                 "direction %d is neither RONDO_INPUT nor RONDO_OUTPUT",
                                 static_cast<int>(direction)));
  }
  if (program >= plan->programs.size()) {
    return ToError(Status::Error(Code::kNotFound, "program %u does not exist, the plan has %zu", program,
                                 plan->programs.size()));
  }
  return nullptr;
}

const char* Noun(rondo_direction direction) { return direction == RONDO_INPUT ? "input" : "output"; }

}  // namespace

extern "C" {

rondo_error* rondo_plan_open(const char* path, const rondo_plan_options* options, rondo_plan** plan) {
  if (path == nullptr) return NullError("rondo_plan_open", "path");
  if (plan == nullptr) return NullError("rondo_plan_open", "plan");
  return OpenPlan(path, {}, options, plan);
}

rondo_error* rondo_plan_open_bytes(const void* bytes, size_t size, const rondo_plan_options* options,
                                   rondo_plan** plan) {
  if (bytes == nullptr) return NullError("rondo_plan_open_bytes", "bytes");
  if (plan == nullptr) return NullError("rondo_plan_open_bytes", "plan");
  return OpenPlan(nullptr, {static_cast<const uint8_t*>(bytes), size}, options, plan);
}

void rondo_plan_destroy(rondo_plan* plan) { rondo::DeleteObject(rondo::DefaultHostAllocator(), plan); }

uint32_t rondo_plan_program_count(const rondo_plan* plan) {
  return plan == nullptr ? 0 : CountPrograms(plan->plan.data());
}

const char* rondo_plan_program_name(const rondo_plan* plan, uint32_t program) {
  return plan == nullptr || program >= plan->programs.size() ? nullptr : plan->programs[program];
}

rondo_error* rondo_plan_find_program(const rondo_plan* plan, const char* name, uint32_t* program) {
  if (plan == nullptr) return NullError("rondo_plan_find_program", "plan");
  if (name == nullptr) return NullError("rondo_plan_find_program", "name");
  if (program == nullptr) return NullError("rondo_plan_find_program", "program");
  Result<uint32_t> found = plan->plan.FindProgram(name);
  if (!found.ok()) return ToError(found.status());
  *program = *found;
  return nullptr;
}

uint32_t rondo_plan_port_count(const rondo_plan* plan, uint32_t program, rondo_direction direction) {
  return plan == nullptr ? 0 : static_cast<uint32_t>(PortsOf(plan, program, direction).size());
}

rondo_error* rondo_plan_get_port(const rondo_plan* plan, uint32_t program, rondo_direction direction,
                                 uint32_t index, rondo_port* port) {
  if (plan == nullptr) return NullError("rondo_plan_get_port", "plan");
  if (port == nullptr) return NullError("rondo_plan_get_port", "port");
  if (rondo_error* error = CheckPlace(plan, program, direction)) return error;
  Span<const Port> ports = PortsOf(plan, program, direction);
  if (index >= ports.size()) {
    return ToError(Status::Error(Code::kNotFound, "program \"%s\": %s %u does not exist, there are %zu",
                                 plan->programs[program], Noun(direction), index, ports.size()));
  }
  return FillPort(plan, program, direction, index, port) ? nullptr : SizeError("rondo_port");
}

rondo_error* rondo_plan_find_port(const rondo_plan* plan, uint32_t program, rondo_direction direction,
                                  const char* name, uint32_t* index, rondo_port* port) {
  if (plan == nullptr) return NullError("rondo_plan_find_port", "plan");
  if (name == nullptr) return NullError("rondo_plan_find_port", "name");
  if (rondo_error* error = CheckPlace(plan, program, direction)) return error;
  Span<const Port> ports = PortsOf(plan, program, direction);
  for (uint32_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name != name) continue;
    if (port != nullptr && !FillPort(plan, program, direction, i, port)) return SizeError("rondo_port");
    if (index != nullptr) *index = i;
    return nullptr;
  }
  return ToError(Status::Error(Code::kNotFound, "program \"%s\": no %s is called \"%s\"",
                               plan->programs[program], Noun(direction), name));
}

rondo_error* rondo_plan_get_requirements(const rondo_plan* plan, rondo_requirements* requirements) {
  if (plan == nullptr) return NullError("rondo_plan_get_requirements", "plan");
  if (requirements == nullptr) return NullError("rondo_plan_get_requirements", "requirements");
  const rondo::Requirements& from = plan->plan.data().requirements;
  rondo_requirements full = {};
  full.target = plan->target;
  full.devices = static_cast<uint32_t>(from.devices.size());
  full.least_driver_version = from.least_driver_version;
  return FillStruct(full, requirements) ? nullptr : SizeError("rondo_requirements");
}

rondo_error* rondo_plan_get_device_bytes(const rondo_plan* plan, uint32_t device, rondo_device_bytes* bytes) {
  if (plan == nullptr) return NullError("rondo_plan_get_device_bytes", "plan");
  if (bytes == nullptr) return NullError("rondo_plan_get_device_bytes", "bytes");
  Span<const rondo::DeviceBytes> devices = plan->plan.data().requirements.devices;
  if (device >= devices.size()) {
    return ToError(
        Status::Error(Code::kNotFound, "device %u does not exist, the plan has %zu", device, devices.size()));
  }
  const rondo::DeviceBytes& from = devices[device];
  const rondo::DeviceMemory given = rondo::EstimateDeviceMemory(plan->plan.data(), device);
  rondo_device_bytes full = {
      0,          from.weights, from.arena,          from.state,         from.workspace, from.communicator,
      given.code, given.graphs, given.first_session, given.each_session, given.library};
  return FillStruct(full, bytes) ? nullptr : SizeError("rondo_device_bytes");
}

uint32_t rondo_plan_buffer_count(const rondo_plan* plan) {
  return plan == nullptr ? 0 : static_cast<uint32_t>(plan->plan.data().buffers.size());
}

rondo_error* rondo_plan_get_buffer(const rondo_plan* plan, uint32_t index, rondo_buffer* buffer) {
  if (plan == nullptr) return NullError("rondo_plan_get_buffer", "plan");
  if (buffer == nullptr) return NullError("rondo_plan_get_buffer", "buffer");
  const rondo::PlanData& data = plan->plan.data();
  if (index >= data.buffers.size()) {
    return ToError(Status::Error(Code::kNotFound, "buffer %u does not exist, the plan has %zu", index,
                                 data.buffers.size()));
  }
  const rondo::Buffer& from = data.buffers[index];
  const std::string_view source =
      from.source == rondo::kNone ? std::string_view() : data.sources[from.source];
  const rondo_buffer full = {0,
                             from.name.data(),
                             from.name.size(),
                             source.data(),
                             source.size(),
                             static_cast<rondo_buffer_kind>(from.kind),
                             from.device,
                             from.program,
                             from.aliases,
                             from.bytes,
                             from.offset,
                             from.first_step,
                             from.last_step};
  return FillStruct(full, buffer) ? nullptr : SizeError("rondo_buffer");
}

}  // extern "C"
