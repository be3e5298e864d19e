#include "tools/python/src/plan.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "runtime/testing/peak.h"
#include "tools/python/src/dtypes.h"
#include "tools/python/src/plan_of_bytes.h"

namespace rondo::python {

namespace fs = std::filesystem;

void Check(const Error& error) {
  if (error) Raise(error.code(), error.message(), error.source_node());
}

const Port* FindPort(const std::vector<Port>& ports, const std::string& name) {
  for (const Port& port : ports) {
    if (port.name == name) return &port;
  }
  return nullptr;
}

std::string TextOf(const Port& port) {
  std::string text = port.name + " " + TypeOf(port.dtype).name + "[";
  for (size_t i = 0; i < port.shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(port.shape[i]);
  return text + (port.is_state ? "] (state)" : "]");
}

namespace {

// The caller holds the interpreter's lock, which Check needs.
Port PortOf(const api::Plan& plan, uint32_t program, rondo_direction direction, uint32_t index) {
  rondo_port port;
  Check(direction == RONDO_INPUT ? plan.GetInput(program, index, &port)
                                 : plan.GetOutput(program, index, &port));
  return {port.name,  port.dtype,         {port.all_dims, port.all_dims + port.rank},
          port.bytes, port.is_state != 0, port.device};
}

// Marks the inputs whose memory a run may write: updated inputs, and inputs whose memory another buffer takes
// over (rondo_memory). Buffers have the values' names. If a program has no input with the buffer's name, any
// of its inputs may be meant, so all are marked.
void MarkGivenAway(const api::Plan& plan, std::vector<Program>* programs) {
  std::vector<rondo_buffer> buffers(plan.BufferCount());
  for (uint32_t i = 0; i < buffers.size(); ++i) Check(plan.GetBuffer(i, &buffers[i]));
  for (const rondo_buffer& buffer : buffers) {
    const rondo_buffer* owner = &buffer;
    while (owner->aliases < buffers.size()) owner = &buffers[owner->aliases];
    const bool taken = owner != &buffer && owner->kind == RONDO_BUFFER_INPUT;
    if (!taken && owner->kind != RONDO_BUFFER_UPDATED_INPUT) continue;
    const std::string name(owner->name, owner->name_bytes);
    for (Program& program : *programs) {
      if (owner->program != RONDO_NO_INDEX && owner->program != program.index) continue;
      const bool known = FindPort(program.inputs, name) != nullptr;
      for (Port& input : program.inputs) input.given_away |= !known || input.name == name;
    }
  }
}

std::vector<Program> ProgramsOf(const api::Plan& plan) {
  std::vector<Program> programs(plan.program_count());
  for (uint32_t p = 0; p < programs.size(); ++p) {
    Program& program = programs[p];
    program.index = p;
    program.name = plan.program_name(p);
    for (uint32_t i = 0; i < plan.input_count(p); ++i)
      program.inputs.push_back(PortOf(plan, p, RONDO_INPUT, i));
    for (uint32_t i = 0; i < plan.output_count(p); ++i)
      program.outputs.push_back(PortOf(plan, p, RONDO_OUTPUT, i));
  }
  MarkGivenAway(plan, &programs);
  return programs;
}

PlanObject Opened(std::shared_ptr<OpenPlan> opened, const rondo_plan_options& options) {
  Error error;
  {
    nb::gil_scoped_release unlocked;
    error = opened->path.empty() ? api::Plan::Open(AsBytes(opened->bytes), &opened->plan, &options)
                                 : api::Plan::Open(opened->path.c_str(), &opened->plan, &options);
  }
  Check(error);
  opened->programs = ProgramsOf(opened->plan);
  return {std::move(opened)};
}

PlanObject Load(const fs::path& path, bool read_weights, bool map_weights, bool ignore_hashes,
                const std::optional<std::string>& name) {
  rondo_plan_options options = RONDO_INIT(rondo_plan_options);
  options.read_weights = read_weights;
  options.map_weights = map_weights;
  options.ignore_hashes = ignore_hashes;
  options.name = name ? name->c_str() : nullptr;
  auto opened = std::make_shared<OpenPlan>();
  opened->path = fs::absolute(path).string();
  return Opened(std::move(opened), options);
}

PlanObject FromBytes(std::vector<uint8_t> bytes, const char* name) {
  rondo_plan_options options = RONDO_INIT(rondo_plan_options);
  options.name = name;
  auto opened = std::make_shared<OpenPlan>();
  opened->bytes = std::move(bytes);
  return Opened(std::move(opened), options);
}

// An existing file is replaced only when the new one is complete.
std::string Write(const OpenPlan& plan, const fs::path& path) {
  const fs::path whole = path.string() + "." + std::to_string(getpid()) + ".part";
  std::error_code error;
  if (plan.path.empty()) {
    errno = 0;
    std::ofstream out(whole, std::ios::binary);
    out.write(reinterpret_cast<const char*>(plan.bytes.data()),
              static_cast<std::streamsize>(plan.bytes.size()));
    if (!out.flush()) error = std::error_code(errno == 0 ? EIO : errno, std::generic_category());
  } else {
    fs::copy_file(plan.path, whole, fs::copy_options::overwrite_existing, error);
  }
  if (!error) fs::rename(whole, path, error);
  if (!error) return "";
  std::error_code ignored;
  fs::remove(whole, ignored);
  return path.string() + " cannot be written: " + error.message();
}

void Save(const PlanObject& self, const fs::path& path) {
  std::string wrong;
  {
    nb::gil_scoped_release unlocked;
    wrong = Write(*self.plan, path);
  }
  if (!wrong.empty()) Raise(RONDO_IO, wrong);
}

rondo_requirements RequirementsOf(const PlanObject& self) {
  rondo_requirements requirements;
  Check(self.plan->plan.GetRequirements(&requirements));
  return requirements;
}

nb::tuple ShapeOf(const Port& port) {
  nb::list shape;
  for (const int64_t dim : port.shape) shape.append(dim);
  return nb::tuple(shape);
}

nb::dict PortsOf(const std::vector<Port>& ports) {
  nb::dict named;
  for (const Port& port : ports) named[Str(port.name)] = port;
  return named;
}

nb::dict ProgramsDict(const PlanObject& self) {
  nb::dict named;
  for (const Program& program : self.plan->programs) named[Str(program.name)] = program;
  return named;
}

nb::dict States(const PlanObject& self) {
  nb::dict named;
  for (const Program& program : self.plan->programs) {
    for (const std::vector<Port>* side : {&program.inputs, &program.outputs}) {
      for (const Port& port : *side) {
        if (port.is_state) named[Str(port.name)] = port;
      }
    }
  }
  return named;
}

nb::list Memory(const PlanObject& self) {
  nb::list devices;
  for (uint32_t d = 0; d < RequirementsOf(self).devices; ++d) {
    rondo_device_bytes bytes;
    Check(self.plan->plan.GetDeviceBytes(d, &bytes));
    nb::dict device;
    device["weights"] = bytes.weights;
    device["arena"] = bytes.arena;
    device["state"] = bytes.state;
    device["workspace"] = bytes.workspace;
    device["communicator"] = bytes.communicator;
    device["code"] = bytes.code;
    device["graphs"] = bytes.graphs;
    device["library"] = bytes.library;
    device["first_session"] = bytes.first_session;
    device["each_session"] = bytes.each_session;
    devices.append(device);
  }
  return devices;
}

nb::dict Described(const Port& port) {
  nb::dict described;
  described["dtype"] = TypeOf(port.dtype).name;
  described["shape"] = ShapeOf(port);
  described["bytes"] = port.bytes;
  described["is_state"] = port.is_state;
  described["device"] = port.device;
  return described;
}

nb::dict Inspect(const PlanObject& self) {
  const rondo_requirements requirements = RequirementsOf(self);
  nb::dict programs, whole;
  for (const Program& program : self.plan->programs) {
    nb::dict inputs, outputs, described;
    for (const Port& port : program.inputs) inputs[Str(port.name)] = Described(port);
    for (const Port& port : program.outputs) outputs[Str(port.name)] = Described(port);
    described["inputs"] = inputs;
    described["outputs"] = outputs;
    programs[Str(program.name)] = described;
  }
  whole["target"] = requirements.target;
  whole["devices"] = requirements.devices;
  whole["least_driver_version"] = requirements.least_driver_version;
  whole["programs"] = programs;
  whole["memory"] = Memory(self);
  whole["peak_bytes"] = testing::PeakBytes(self.plan->plan);
  return whole;
}

std::string Listed(const std::vector<Port>& ports) {
  std::string text;
  for (const Port& port : ports) text += (text.empty() ? "" : ", ") + TextOf(port);
  return text;
}

std::string TextOf(const Program& program) {
  return program.name + "(" + Listed(program.inputs) + ") -> (" + Listed(program.outputs) + ")";
}

nb::str Repr(const PlanObject& self) {
  std::string text = std::string("<rondo.Plan for ") + RequirementsOf(self).target;
  for (const Program& program : self.plan->programs) text += "; " + TextOf(program);
  return Str(text + ">");
}

void DeclarePorts(nb::module_& m) {
  nb::class_<Port>(m, "Port", "An input or output of a program.")
      .def_prop_ro("name", [](const Port& port) { return Str(port.name); })
      .def_prop_ro(
          "dtype", [](const Port& port) { return TypeOf(port.dtype).name; },
          "numpy's name of the element type, or ml_dtypes': \"float32\", \"bfloat16\".")
      .def_prop_ro("shape", ShapeOf, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_ro("bytes", &Port::bytes)
      .def_ro("is_state", &Port::is_state, "State of the session: optional as an input.")
      .def_ro("device", &Port::device)
      .def("__repr__", [](const Port& port) { return Str("<rondo.Port " + TextOf(port) + ">"); });
  nb::class_<Program>(m, "Program", "An entry point of a plan.")
      .def_prop_ro("name", [](const Program& program) { return Str(program.name); })
      .def_prop_ro(
          "inputs", [](const Program& program) { return PortsOf(program.inputs); },
          nb::sig("def inputs(self) -> dict[str, Port]"))
      .def_prop_ro(
          "outputs", [](const Program& program) { return PortsOf(program.outputs); },
          nb::sig("def outputs(self) -> dict[str, Port]"))
      .def("__repr__", [](const Program& program) { return Str("<rondo.Program " + TextOf(program) + ">"); });
}

}  // namespace

nb::object PlanOfBytes(std::vector<uint8_t> bytes) {
  return nb::cast(FromBytes(std::move(bytes), "compiled"));
}

void DeclarePlan(nb::module_& m) {
  DeclarePorts(m);
  nb::class_<PlanObject>(
      m, "Plan",
      "A compiled model: read, verified and proved when it is opened. Answers what it needs "
      "before anything is loaded. Immutable; any thread.")
      .def_static(
          "load", Load, nb::arg("path"), nb::kw_only(), nb::arg("read_weights") = false,
          nb::arg("map_weights") = false, nb::arg("ignore_hashes") = false, nb::arg("name") = nb::none(),
          "Opens a plan file. Weights below 256 MiB are read, larger ones are mapped: the file must then "
          "stay as it is. `name`: what metrics call the plan.")
      .def_static(
          "from_bytes",
          [](nb::bytes data, const std::optional<std::string>& name) {
            const auto* first = static_cast<const uint8_t*>(data.data());
            return FromBytes({first, first + data.size()}, name ? name->c_str() : nullptr);
          },
          nb::arg("data"), nb::kw_only(), nb::arg("name") = nb::none(),
          "Opens a copy of a plan file's bytes.")
      .def("save", Save, nb::arg("path"),
           "Writes the plan; of a loaded one, a copy of its file. A weights file beside it is not copied.")
      .def_prop_ro("programs", ProgramsDict, nb::sig("def programs(self) -> dict[str, Program]"))
      .def_prop_ro("states", States, nb::sig("def states(self) -> dict[str, Port]"),
                   "State of a session, by the names of all programs' ports.")
      .def_prop_ro("target", [](const PlanObject& self) { return RequirementsOf(self).target; })
      .def_prop_ro("devices", [](const PlanObject& self) { return RequirementsOf(self).devices; })
      .def_prop_ro("memory", Memory, nb::sig("def memory(self) -> list[dict[str, int]]"),
                   "Bytes by kind, a dict a device; rondo_device_bytes in rondo.h says what each is.")
      .def_prop_ro(
          "peak_bytes", [](const PlanObject& self) { return testing::PeakBytes(self.plan->plan); },
          "The device memory of a first session on all devices: weights, arena and state.")
      .def("inspect", Inspect, nb::sig("def inspect(self) -> dict[str, typing.Any]"),
           "All of the above as plain dicts, for JSON.")
      .def("__repr__", Repr);
}

}  // namespace rondo::python
