// Binds a caller's tensors of a run to the ports of its program. Allocates memory only to describe a mistake.
#include <cinttypes>

#include "core/shape.h"
#include "runtime/session_impl.h"
#include "runtime/text.h"

namespace rondo {
namespace {

// One direction of a program: its ports and the words that errors use for them.
struct Ports {
  const SessionImpl* session;
  std::string_view program;
  Span<const Port> ports;
  Span<ArmedPort> armed;
  const char* noun;  // "input" or "output"
};

const Buffer& BufferOf(const Ports& side, size_t port) {
  return side.session->plan.data().buffers[side.ports[port].buffer];
}

void AddKnown(const Ports& side, Text* text) {
  if (side.ports.empty()) {
    text->Add("; it has no %ss", side.noun);
    return;
  }
  text->Add("; its %ss are ", side.noun);
  for (size_t i = 0; i < side.ports.size(); ++i) {
    const char* suffix = side.ports[i].is_state ? " (state)" : "";
    if (!text->AddItem(i, side.ports.size(), side.ports[i].name, suffix)) return;
  }
}

void AddPort(const Ports& side, size_t port, Text* text) {
  text->Add("program ");
  text->AddName(side.program);
  text->Add(": %s ", side.noun);
  text->AddName(side.ports[port].name);
}

// "i64 [1, 64] of 512 bytes"
void AddExpected(const Ports& side, size_t port, Text* text) {
  const Buffer& b = BufferOf(side, port);
  char shape[128];
  text->Add("%s %s of %" PRIu64 " bytes", Name(b.dtype), Format(b.shape, shape, sizeof(shape)), b.bytes);
}

Status Mistake(const Ports& side, Text* text, Code code = Code::kInvalidArgument) {
  AddKnown(side, text);
  return Status::Error(code, "%s", text->get());
}

const char* SafeName(DType dtype) {
  return static_cast<int>(dtype) < kNumDTypes ? Name(dtype) : "an unknown dtype";
}

// Finds the port that `name` or `index` refers to; `likely` is tried first.
Status FindPort(const Ports& side, std::string_view name, uint32_t index, size_t likely, size_t* port) {
  if (name.empty()) {
    if (index < side.ports.size()) {
      *port = index;
      return Status::Ok();
    }
    Text text;
    text.Add("program ");
    text.AddName(side.program);
    text.Add(": %s %u does not exist, there are %zu", side.noun, index, side.ports.size());
    return Mistake(side, &text, Code::kNotFound);
  }
  if (likely < side.ports.size() && side.ports[likely].name == name) {
    *port = likely;
    return Status::Ok();
  }
  for (size_t i = 0; i < side.ports.size(); ++i) {
    if (side.ports[i].name == name) {
      *port = i;
      return Status::Ok();
    }
  }
  Text text;
  text.Add("program ");
  text.AddName(side.program);
  text.Add(": no %s is called ", side.noun);
  text.AddName(name);
  return Mistake(side, &text, Code::kNotFound);
}

// The fields that Input and Output share. `shape` is null if there is none.
struct Given {
  std::string_view name;
  uint32_t index;
  DType dtype;
  const Shape* shape;
  void* data;
  uint64_t bytes;
  MemoryKind memory;
};
Given GivenOf(const Input& i) {
  return {i.name, i.index, i.dtype, &i.shape, const_cast<void*>(i.data), i.bytes, i.memory};
}
Given GivenOf(const Output& o) { return {o.name, o.index, o.dtype, nullptr, o.data, o.bytes, o.memory}; }

Status CheckTensor(const Ports& side, size_t port, const Given& tensor) {
  const Buffer& b = BufferOf(side, port);
  const auto& [name, index, dtype, shape, data, bytes, memory] = tensor;
  const bool same_shape = shape == nullptr || *shape == b.shape;
  if (dtype == b.dtype && same_shape && bytes == b.bytes && (data != nullptr || bytes == 0)) {
    return Status::Ok();
  }
  Text text;
  char given[128];
  AddPort(side, port, &text);
  text.Add(" must be ");
  AddExpected(side, port, &text);
  if (dtype != b.dtype || !same_shape) {
    text.Add(", but %s", SafeName(dtype));
    if (shape != nullptr) text.Add(" %s", Format(*shape, given, sizeof(given)));
    text.Add(" was given");
  } else if (bytes != b.bytes) {
    text.Add(", but %" PRIu64 " bytes were given", bytes);
  } else {
    text.Add(", but its data is null");
  }
  return Mistake(side, &text);
}

Status Refused(const Ports& side, size_t port, const char* why) {
  Text text;
  AddPort(side, port, &text);
  text.Add("%s", why);
  return Mistake(side, &text);
}

// Whether the port's device belongs to this process.
bool IsHere(const Ports& side, size_t port) {
  return side.session->devices[BufferOf(side, port).device].device != nullptr;
}

// Whether the steps of a port should use a new address, instead of a copy. On a GPU, a copy takes as long as
// updating about 16 steps, and each further megabyte as long as one step. An address that the caller gives
// again may stay, and is set once.
bool IsWorthTelling(const ArmedPort& port, DeviceAddress address, uint64_t bytes) {
  return address == port.at || address == port.last || port.steps.size() <= 16 + (bytes >> 20);
}

// Binds tensor `i` of the caller's list, and decides whether the port's steps use it in place.
Status BindOne(const Ports& side, size_t i, const Given& tensor, bool direct) {
  size_t port = 0;
  RONDO_RETURN_IF_ERROR(FindPort(side, tensor.name, tensor.index, i, &port));
  ArmedPort& armed = side.armed[port];
  if (armed.bound.given) return Refused(side, port, " is given twice");
  const bool output = tensor.shape == nullptr;
  if (output && !IsHere(side, port)) return Refused(side, port, " is on a device that another process has");
  RONDO_RETURN_IF_ERROR(CheckTensor(side, port, tensor));
  armed.bound = {tensor.data, tensor.memory, true};
  if (tensor.memory != MemoryKind::kDevice) return Status::Ok();
  const DeviceAddress address = armed.bound.address();
  armed.bound.direct = direct && !armed.steps.empty() && address % BufferOf(side, port).alignment == 0 &&
                       IsWorthTelling(armed, address, tensor.bytes);
  armed.last = address;
  return Status::Ok();
}

Status CheckComplete(const Ports& inputs) {
  for (size_t i = 0; i < inputs.ports.size(); ++i) {
    if (inputs.armed[i].bound.given || inputs.ports[i].is_state) continue;
    if (inputs.ports[i].replicas.empty() && !IsHere(inputs, i)) continue;  // only another process needs it
    Text text;
    AddPort(inputs, i, &text);
    text.Add(" (");
    AddExpected(inputs, i, &text);
    text.Add(") is missing");
    return Mistake(inputs, &text);
  }
  return Status::Ok();
}

DeviceRegion RegionOf(const Ports& side, size_t port) {
  return {side.armed[port].bound.address(), side.armed[port].bound.given ? BufferOf(side, port).bytes : 0};
}

bool Overlap(const DeviceRegion& a, const DeviceRegion& b) {
  return a.bytes != 0 && b.bytes != 0 && a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

// Whether two tensors overlap without being the same memory; an output may use the memory of the input that
// it takes over.
bool InTheWay(const Ports& side, size_t i, const Ports& other, size_t k) {
  const DeviceRegion a = RegionOf(side, i), b = RegionOf(other, k);
  const PlanData& data = side.session->plan.data();
  return Overlap(a, b) && (a.address != b.address ||
                           OwnerOf(data, side.ports[i].buffer) != OwnerOf(data, other.ports[k].buffer));
}

Status Overlapping(const Ports& side, size_t port, const char* noun, std::string_view with) {
  Text text;
  AddPort(side, port, &text);
  text.Add(" overlaps %s ", noun);
  text.AddName(with);
  text.Add(" in memory");
  return Status::Error(Code::kInvalidArgument, "%s", text.get());
}

Status CheckOutside(const Ports& side, size_t port, const SessionDevice& d) {
  const DeviceRegion region = RegionOf(side, port);
  if (Overlap(region, d.arena)) return Overlapping(side, port, "the session's", "arena");
  if (Overlap(region, d.state)) return Overlapping(side, port, "the session's", "state");
  return Status::Ok();
}

// A tensor in device memory must not overlap another one if either is written. An output may be the input
// whose memory it takes over.
Status CheckApart(const Ports& side, size_t port, const Ports& outputs, const Ports& inputs) {
  for (const Ports* other : {&outputs, &inputs}) {
    if (&side == &inputs && other == &inputs) break;
    for (size_t i = 0; i < other->ports.size(); ++i) {
      if (InTheWay(side, port, *other, i)) return Overlapping(side, port, other->noun, other->ports[i].name);
    }
  }
  return Status::Ok();
}

}  // namespace

void ForgetTensors(SessionImpl* session, uint32_t program) {
  for (ArmedPort& port : session->programs[program].inputs) port.bound = {};
  for (ArmedPort& port : session->programs[program].outputs) port.bound = {};
}

Status BindTensors(SessionImpl* session, uint32_t program_index, Span<const Input> inputs,
                   Span<const Output> outputs, bool direct) {
  const Program& program = session->plan.data().programs[program_index];
  const ArmedProgram& armed = session->programs[program_index];
  const Ports in{session, program.name, program.inputs, armed.inputs, "input"};
  const Ports out{session, program.name, program.outputs, armed.outputs, "output"};
  ForgetTensors(session, program_index);
  for (size_t i = 0; i < inputs.size(); ++i) {
    RONDO_RETURN_IF_ERROR(BindOne(in, i, GivenOf(inputs[i]), direct));
  }
  RONDO_RETURN_IF_ERROR(CheckComplete(in));
  for (size_t i = 0; i < outputs.size(); ++i) {
    RONDO_RETURN_IF_ERROR(BindOne(out, i, GivenOf(outputs[i]), direct));
  }
  for (const Ports* side : {&in, &out}) {
    for (size_t i = 0; i < side->ports.size(); ++i) {
      const bool on_device = side->armed[i].bound.memory == MemoryKind::kDevice;
      if (!on_device && side == &in) continue;
      for (const SessionDevice& device : session->devices) {  // host memory may belong to a device
        RONDO_RETURN_IF_ERROR(CheckOutside(*side, i, device));
      }
      if (on_device) RONDO_RETURN_IF_ERROR(CheckApart(*side, i, out, in));
    }
  }
  return Status::Ok();
}

}  // namespace rondo
