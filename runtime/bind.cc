// Binding: what a caller gives for a run against the ports of its program. Allocates only to describe a
// mistake.
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

// The port that `name` or `index` means; `likely` is tried first.
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

// Checks what Inputs and Outputs have in common. `shape` is null where it is not given.
Status CheckTensor(const Ports& side, size_t port, DType dtype, const Shape* shape, const void* data,
                   uint64_t bytes) {
  const Buffer& b = BufferOf(side, port);
  bool same_shape = shape == nullptr || *shape == b.shape;
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

Status GivenTwice(const Ports& side, size_t port) {
  Text text;
  AddPort(side, port, &text);
  text.Add(" is given twice");
  return Mistake(side, &text);
}

}  // namespace

Status BindInputs(SessionImpl* session, uint32_t program_index, Span<const Input> inputs) {
  const Program& program = session->plan.data().programs[program_index];
  Span<BoundPort> bound = session->programs[program_index].inputs;
  Ports side{session, program.name, program.inputs, "input"};
  for (BoundPort& slot : bound) slot = {};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    size_t port = 0;
    RONDO_RETURN_IF_ERROR(FindPort(side, input.name, input.index, i, &port));
    if (bound[port].given) return GivenTwice(side, port);
    RONDO_RETURN_IF_ERROR(CheckTensor(side, port, input.dtype, &input.shape, input.data, input.bytes));
    bound[port] = {const_cast<void*>(input.data), true};
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    if (bound[i].given || program.inputs[i].is_state) continue;
    Text text;
    AddPort(side, i, &text);
    text.Add(" (");
    AddExpected(side, i, &text);
    text.Add(") is missing");
    return Mistake(side, &text);
  }
  return Status::Ok();
}

Status BindOutputs(SessionImpl* session, uint32_t program_index, Span<const Output> outputs) {
  const Program& program = session->plan.data().programs[program_index];
  Span<BoundPort> bound = session->programs[program_index].outputs;
  Ports side{session, program.name, program.outputs, "output"};
  for (BoundPort& slot : bound) slot = {};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    size_t port = 0;
    RONDO_RETURN_IF_ERROR(FindPort(side, output.name, output.index, i, &port));
    if (bound[port].given) return GivenTwice(side, port);
    RONDO_RETURN_IF_ERROR(CheckTensor(side, port, output.dtype, nullptr, output.data, output.bytes));
    bound[port] = {output.data, true};
  }
  return Status::Ok();
}

}  // namespace rondo
