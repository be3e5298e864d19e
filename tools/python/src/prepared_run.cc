#include "tools/python/src/prepared_run.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>

#include "tools/python/src/dtypes.h"

namespace rondo::python {
namespace {

using Named = std::vector<std::pair<std::string, nb::object>>;

std::string NameFrom(nb::handle name, const char* noun) {
  if (!nb::isinstance<nb::str>(name))
    Raise(kInvalidArgument,
          std::string("the name of an ") + noun + " is a " + TypeName(name) + ", not a str");
  return Utf8Of(name, std::string("the name of an ") + noun);
}

Named Items(nb::handle mapping, const char* noun) {
  if (!nb::isinstance<nb::dict>(mapping)) {
    Raise(kInvalidArgument,
          std::string(noun) + "s are a " + TypeName(mapping) + ": give a dict of arrays by their names");
  }
  Named items;
  for (const auto& [name, value] : nb::borrow<nb::dict>(mapping))
    items.emplace_back(NameFrom(name, noun), nb::borrow(value));
  return items;
}

const Port& PortOf(const OpenPlan& plan, const Program& program, const std::string& name, bool output) {
  const Port* port = FindPort(output ? program.outputs : program.inputs, name);
  if (port != nullptr) return *port;
  rondo_port unused;
  Check(output ? plan.plan.FindOutput(program.index, name.c_str(), &unused)
               : plan.plan.FindInput(program.index, name.c_str(), &unused));
  Raise(kNotFound,
        "program " + program.name + " has no " + (output ? "output" : "input") + " \"" + name + "\"");
}

// Whether the arrays are all of the program's inputs, each with the right type and shape.
bool Takes(const Program& program, const Named& inputs, const std::vector<Array>& arrays) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Port* port = FindPort(program.inputs, inputs[i].first);
    if (port == nullptr || arrays[i].type->dtype != port->dtype || arrays[i].shape() != port->shape)
      return false;
  }
  return std::all_of(program.inputs.begin(), program.inputs.end(), [&](const Port& port) {
    return port.is_state || std::any_of(inputs.begin(), inputs.end(),
                                        [&](const auto& input) { return input.first == port.name; });
  });
}

[[noreturn]] void RefuseChoice(const OpenPlan& plan, const Named& inputs, const std::vector<Array>& arrays,
                               const std::vector<const Program*>& fitting) {
  std::string text;
  if (!fitting.empty()) {
    for (const Program* program : fitting) text += (text.empty() ? "\"" : "\" and \"") + program->name;
    Raise(kInvalidArgument, "programs " + text + "\" all take these inputs: say which by program=");
  }
  text = "no program takes";
  for (size_t i = 0; i < inputs.size(); ++i)
    text += (i == 0 ? " " : ", ") + inputs[i].first + " " + arrays[i].Text();
  if (inputs.empty()) text += " no inputs";
  for (const Program& program : plan.programs) {
    text += "; " + program.name + " takes";
    for (const Port& port : program.inputs) text += (&port == &program.inputs[0] ? " " : ", ") + TextOf(port);
  }
  Raise(kInvalidArgument, text);
}

const Program& NamedProgram(const OpenPlan& plan, nb::handle name) {
  if (!nb::isinstance<nb::str>(name))
    Raise(kInvalidArgument, "program is a " + TypeName(name) + ", not a str");
  uint32_t index = 0;
  const std::string text = Utf8Of(name, "program");
  Check(plan.plan.FindProgram(text.c_str(), &index));
  if (index >= plan.programs.size())
    Raise(kInvalidArgument,
          "program \"" + text + "\" is a variant: a session chooses it, by its memory_limit");
  return plan.programs[index];
}

// An input called `name` of any program: arrays are read by it before their program is known.
const Port* AnyPort(const OpenPlan& plan, const std::string& name) {
  for (const Program& program : plan.programs) {
    if (const Port* port = FindPort(program.inputs, name)) return port;
  }
  return nullptr;
}

// Chooses the program by the exact shapes of all inputs. Null if none fits and the plan has one family of
// buckets.
const Program* ChosenProgram(const OpenPlan& plan, const Place& place, const Families& families,
                             const Named& inputs) {
  if (plan.programs.size() == 1 && families.empty()) return &plan.programs[0];
  std::vector<Array> arrays;
  for (const auto& [name, object] : inputs) {
    const Port* port = AnyPort(plan, name);
    if (port == nullptr) Raise(kNotFound, "no program of the plan has an input \"" + name + "\"");
    arrays.push_back(TakeArray(object, *port, false, place));
  }
  std::vector<const Program*> fitting;
  for (const Program& program : plan.programs) {
    if (Takes(program, inputs, arrays)) fitting.push_back(&program);
  }
  if (fitting.empty() && families.size() == 1) return nullptr;
  if (fitting.size() != 1) RefuseChoice(plan, inputs, arrays, fitting);
  return fitting[0];
}

// The family of buckets that `program` names; null if it names none.
Buckets* NamedFamily(Families* families, nb::handle program) {
  if (!nb::isinstance<nb::str>(program)) return nullptr;
  const auto found = families->find(Utf8Of(program, "program"));
  return found == families->end() ? nullptr : &found->second;
}

// The program of a family that takes arrays of these shapes.
const Program& ProgramFor(const OpenPlan& plan, const Place& place, const Buckets& buckets,
                          const Named& inputs) {
  std::vector<Array> arrays;
  std::vector<Tensor> tensors;
  for (const auto& [name, object] : inputs) {
    const Port* port = AnyPort(plan, name);
    if (port == nullptr) Raise(kNotFound, "no program of the plan has an input \"" + name + "\"");
    arrays.push_back(TakeArray(object, *port, false, place));
    tensors.push_back(arrays.back().TensorFor(*port));
  }
  uint32_t program = 0;
  Check(buckets.Choose(tensors, &program));
  return plan.programs[program];
}

class Preparation {
 public:
  Preparation(const OpenPlan& plan, const Place& place, const Program& program, Buckets* buckets,
              PreparedRun* run)
      : plan_(plan), place_(place), program_(program), run_(*run) {
    run_.program = program.index;
    run_.buckets = buckets;
  }

  void TakeInputs(const Named& inputs) {
    for (const auto& [name, object] : inputs) {
      const Port& port = PortOf(plan_, program_, name, false);
      Add(TakeArray(object, port, false, place_), port, &run_.inputs);
      on_gpu_ |= run_.arrays.back().gpu >= 0;
    }
  }

  void TakeOutputs(nb::handle outputs) {
    if (outputs.is_none()) {
      for (const Port& port : program_.outputs) {
        if (!port.is_state) MakeOutput(port);
      }
    } else if (nb::isinstance<nb::dict>(outputs)) {
      for (const auto& [name, object] : Items(outputs, "output")) TakeOutput(name, object);
    } else if (nb::isinstance<nb::str>(outputs) || !nb::hasattr(outputs, "__iter__")) {
      Raise(kInvalidArgument,
            "outputs is a " + TypeName(outputs) + ": give a list of names, or a dict of arrays");
    } else {
      for (const nb::handle name : nb::iter(outputs))
        MakeOutput(PortOf(plan_, program_, NameFrom(name, "output"), true));
    }
  }

 private:
  // With buckets on the host, inputs are padded and outputs cut by copies in host memory.
  void Add(Array array, const Port& port, std::vector<Tensor>* tensors) {
    if (place_.gpus == nullptr && run_.buckets != nullptr) array.memory = RONDO_HOST_MEMORY;
    tensors->push_back(array.TensorFor(port));
    run_.arrays.push_back(std::move(array));
  }

  // The output with the shape that it has in this run.
  const Port& TrueOutput(const Port& port) {
    if (run_.buckets == nullptr) return port;
    Port& cut = run_.ports.emplace_back(port);
    uint32_t rank = 0;
    int64_t dims[RONDO_PORT_DIMS];
    Check(run_.buckets->OutputShape(run_.inputs, port.name.c_str(), &rank, dims));
    int64_t whole = 1, own = 1;
    for (uint32_t d = 0; d < rank; ++d) {
      whole *= port.shape[d];
      own *= dims[d];
    }
    cut.shape.assign(dims, dims + rank);
    cut.bytes = port.bytes / static_cast<uint64_t>(whole) * static_cast<uint64_t>(own);
    return cut;
  }

  void MakeOutput(const Port& whole) {
    const Port& port = TrueOutput(whole);
    NewArray made = MakeArray(port, on_gpu_ && !port.is_state && port.shape == whole.shape, place_);
    Add(std::move(made.array), port, &run_.outputs);
    run_.results[Str(port.name)] = made.seen;
  }

  void TakeOutput(const std::string& name, nb::handle object) {
    const Port& port = TrueOutput(PortOf(plan_, program_, name, true));
    Array array = TakeArray(object, port, true, place_);
    if (array.type->dtype != port.dtype || array.shape() != port.shape) {
      Raise(kInvalidArgument,
            "output \"" + name + "\" is " + array.Text() + ", but the program gives " + TextOf(port));
    }
    Add(std::move(array), port, &run_.outputs);
    run_.results[Str(name)] = object;
  }

  const OpenPlan& plan_;
  const Place& place_;
  const Program& program_;
  PreparedRun& run_;
  bool on_gpu_ = false;
};

}  // namespace

std::string PreparedRun::WaitForProducers(Gpus* gpus) const {
  uint64_t waited = 0;
  for (const Array& array : arrays) {
    if (array.gpu < 0 || (waited >> array.gpu & 1) != 0) continue;
    waited |= uint64_t{1} << array.gpu;
    const std::string error = gpus->Wait(array.gpu);
    if (!error.empty()) return error;
  }
  return "";
}

PreparedRun Prepare(const OpenPlan& plan, const Place& place, Families* families, nb::handle inputs,
                    nb::handle program, nb::handle outputs) {
  const Named given = Items(inputs, "input");
  Buckets* buckets = NamedFamily(families, program);
  const Program* chosen = buckets != nullptr  ? nullptr
                          : program.is_none() ? ChosenProgram(plan, place, *families, given)
                                              : &NamedProgram(plan, program);
  if (chosen == nullptr) {
    if (buckets == nullptr) buckets = &families->begin()->second;
    chosen = &ProgramFor(plan, place, *buckets, given);
  }
  PreparedRun run;
  Preparation preparation(plan, place, *chosen, buckets, &run);
  preparation.TakeInputs(given);
  preparation.TakeOutputs(outputs);
  return run;
}

}  // namespace rondo::python
