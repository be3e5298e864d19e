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
  return nb::cast<std::string>(name);
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
  Raise(kNotFound, "program " + program.name + " has no " + (output ? "output" : "input") + " of that name");
}

// Whether the arrays are all that the program needs, each of its type and shape.
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
  Check(plan.plan.FindProgram(nb::cast<std::string>(name).c_str(), &index));
  return plan.programs[index];
}

// A port of any program called `name`: what an array is taken for before its program is known.
const Port* AnyPort(const OpenPlan& plan, const std::string& name) {
  for (const Program& program : plan.programs) {
    if (const Port* port = FindPort(program.inputs, name)) return port;
  }
  return nullptr;
}

// By the exact shapes of all inputs. A choice by the least program that holds them belongs here, too.
const Program& ChosenProgram(const OpenPlan& plan, const Place& place, const Named& inputs) {
  if (plan.programs.size() == 1) return plan.programs[0];
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
  if (fitting.size() != 1) RefuseChoice(plan, inputs, arrays, fitting);
  return *fitting[0];
}

class Preparation {
 public:
  Preparation(const OpenPlan& plan, const Place& place, const Program& program, PreparedRun* run)
      : plan_(plan), place_(place), program_(program), run_(*run) {
    run_.program = program.index;
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
  void Add(Array array, const Port& port, std::vector<Tensor>* tensors) {
    tensors->push_back(array.TensorFor(port));
    run_.arrays.push_back(std::move(array));
  }

  void MakeOutput(const Port& port) {
    NewArray made = MakeArray(port, on_gpu_ && !port.is_state, place_);
    Add(std::move(made.array), port, &run_.outputs);
    run_.results[Str(port.name)] = made.seen;
  }

  void TakeOutput(const std::string& name, nb::handle object) {
    const Port& port = PortOf(plan_, program_, name, true);
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

PreparedRun Prepare(const OpenPlan& plan, const Place& place, nb::handle inputs, nb::handle program,
                    nb::handle outputs) {
  const Named given = Items(inputs, "input");
  const Program& chosen = program.is_none() ? ChosenProgram(plan, place, given) : NamedProgram(plan, program);
  PreparedRun run;
  Preparation preparation(plan, place, chosen, &run);
  preparation.TakeInputs(given);
  preparation.TakeOutputs(outputs);
  return run;
}

}  // namespace rondo::python
