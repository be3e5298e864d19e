#include "tools/python/src/compile.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "compiler/compile.h"
#include "compiler/variants.h"
#include "tools/python/src/plan_of_bytes.h"
#include "tools/rondo/kernel_folder.h"

namespace rondo::python {
namespace {

void Check(const Status& status) {
  if (!status.ok()) Raise(static_cast<int>(status.code()), status.message(), status.source_node());
}

template <typename T>
T Take(Result<T> result) {
  Check(result.ok() ? Status::Ok() : result.status());
  return result.Take();
}

[[noreturn]] void NoneOf(const char* option, const std::string& text, const char* known) {
  Raise(kInvalidArgument, std::string(option) + " \"" + text + "\" is none of " + known);
}

// The value of an option as a T; raises an error for any other type.
template <typename T>
T As(const char* option, nb::handle value) {
  T taken{};
  if (!nb::try_cast(value, taken)) {
    Raise(kInvalidArgument, std::string(option) + " is " + nb::cast<std::string>(nb::repr(value)) +
                                ", which is no value of this option");
  }
  return taken;
}

Precision PrecisionOf(const std::string& text) {
  const std::optional<Precision> precision = ParsePrecision(text);
  if (!precision) NoneOf("precision", text, "f32, tf32, f16, bf16");
  return *precision;
}

WeightBits BitsOf(const std::string& text) {
  const std::optional<WeightBits> bits = ParseWeightBits(text);
  if (!bits) {
    NoneOf("quantize_weights", text,
           "int2, int4, int8, fp4, fp8, alone or as in int4:32 with a block of 16, 32, 64, 128 or 256");
  }
  return *bits;
}

Matmuls MatmulsOf(const std::string& text) {
  if (text == "generated") return Matmuls::kGenerated;
  if (text == "library") return Matmuls::kLibrary;
  if (text != "auto") NoneOf("matmuls", text, "generated, library, auto");
  return Matmuls::kAuto;
}

Weights WeightsOf(const std::string& text) {
  if (text == "gather") return Weights::kGather;
  if (text != "divide") NoneOf("weights", text, "divide, gather");
  return Weights::kDivide;
}

Variant VariantOf(const std::string& text) {
  const std::optional<Variant> variant = ParseVariants(text);
  if (!variant) NoneOf("variants", text, "fastest, fastest,smallest");
  return *variant;
}

std::vector<NodeAnnotation> AnnotationsOf(const std::vector<std::string>& texts) {
  std::vector<NodeAnnotation> annotations;
  for (const std::string& text : texts) annotations.push_back(Take(ParseNodeAnnotation(text)));
  return annotations;
}

using Texts = std::vector<std::string>;
using Set = void (*)(const char* option, nb::handle value, CompileOptions* options);

// Sets a field of CompileOptions to Python's value without conversion.
template <auto kField>
void SetField(const char* option, nb::handle value, CompileOptions* options) {
  auto& field = options->*kField;
  field = As<std::remove_reference_t<decltype(field)>>(option, value);
}

// Sets a field to what `kRead` makes of a string or of strings.
template <auto kField, auto kRead, typename T = std::string>
void SetRead(const char* option, nb::handle value, CompileOptions* options) {
  options->*kField = kRead(As<T>(option, value));
}

Targets TargetsOf(const std::string& text) { return Take(ParseTargets(text)); }

using Numbers = std::map<std::string, double>;
BoundValues BoundTo(const Numbers& numbers) { return BoundValues(numbers.begin(), numbers.end()); }

// Setters by the names of compile's arguments.
constexpr std::pair<const char*, Set> kOptions[] = {
    {"shapes", SetField<&CompileOptions::shapes>},
    {"bound_inputs", SetRead<&CompileOptions::bound_inputs, BoundTo, Numbers>},
    {"bounds", SetField<&CompileOptions::bounds>},
    {"target", SetRead<&CompileOptions::targets, TargetsOf>},
    {"precision", SetRead<&CompileOptions::precision, PrecisionOf>},
    {"quantize_weights", SetRead<&CompileOptions::quantize, BitsOf>},
    {"matmuls", SetRead<&CompileOptions::matmuls, MatmulsOf>},
    {"deterministic", SetField<&CompileOptions::deterministic>},
    {"states", SetField<&CompileOptions::state_texts>},
    {"auto_state", SetField<&CompileOptions::auto_state>},
    {"donate", SetField<&CompileOptions::donations>},
    {"cache_length", SetField<&CompileOptions::cache_length>},
    {"position_masks", SetField<&CompileOptions::position_masks>},
    {"sample", SetField<&CompileOptions::sample_text>},
    {"devices", SetField<&CompileOptions::devices>},
    {"tensor_parallel", SetField<&CompileOptions::tensor_parallel>},
    {"pipeline_parallel", SetField<&CompileOptions::pipeline_parallel>},
    {"weights", SetRead<&CompileOptions::weights, WeightsOf>},
    {"variants", SetRead<&CompileOptions::variant, VariantOf>},
    {"chunks", SetField<&CompileOptions::chunks>},
    {"annotations", SetRead<&CompileOptions::annotations, AnnotationsOf, Texts>},
    {"break_before", SetField<&CompileOptions::break_before>},
    {"external_data", SetField<&CompileOptions::external_data>},
    {"synthetic_weights", SetField<&CompileOptions::synthetic_seed>},
    {"live_weights", SetField<&CompileOptions::live_weights>},
    {"library_path", SetField<&CompileOptions::library_path>},
    {"threads", SetField<&CompileOptions::threads>},
};

void SetOptions(nb::dict given, CompileOptions* options) {
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto* option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                      [&](const auto& known) { return name == known.first; });
    if (option == std::end(kOptions)) Raise(kInvalidArgument, "compile has no option " + name);
    option->second(option->first, value, options);
  }
}

// Thrown to unwind the compiler. It does not derive from std::exception, which WithinMemory would take for a
// lack of memory.
struct Stopped {};

// Calls Python's `progress` when a pass begins. An exception from it or from a signal handler
// (KeyboardInterrupt) stops the compiler.
class Progress {
 public:
  explicit Progress(nb::object call) : call_(std::move(call)) {}

  void operator()(const std::string& program, const std::string& pass) {
    nb::gil_scoped_acquire locked;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!call_.is_none()) call_(Str(program), Str(pass));
    } catch (...) {
      raised_ = std::current_exception();
      throw Stopped();
    }
  }
  void Rethrow() const { std::rethrow_exception(raised_); }

 private:
  nb::object call_;
  std::exception_ptr raised_;
};

// Program, path, and the shapes for this model alone.
using Model = std::tuple<std::string, std::string, std::map<std::string, std::vector<int64_t>>>;

// Returns None if the plan is written to `output`, else the plan.
nb::object Compile(const std::vector<Model>& models, nb::dict given, nb::object progress,
                   const std::optional<std::string>& output, const std::vector<std::string>& ops) {
  CompileOptions options;
  for (const auto& [program, path, shapes] : models) options.models.push_back({program, path, shapes});
  SetOptions(given, &options);
  if (options.targets.any_gpu()) options.kernel_cache = tools::DefaultKernelFolder("compile");
  OpRegistry registry;
  for (const std::string& library : ops) Check(registry.Load(library.c_str()));
  options.ops = &registry;
  Progress report(std::move(progress));
  options.progress = [&](const std::string& program, const std::string& pass) { report(program, pass); };
  Status status;
  std::vector<uint8_t> bytes;
  try {
    nb::gil_scoped_release unlocked;
    if (output) {
      status = rondo::Compile(options, *output).status();
    } else {
      Result<std::vector<uint8_t>> compiled = CompileToBytes(options);
      if (compiled.ok()) bytes = compiled.Take();
      status = compiled.status();
    }
  } catch (const Stopped&) {
    report.Rethrow();
  }
  Check(status);
  return output ? nb::none() : PlanOfBytes(std::move(bytes));
}

}  // namespace

void DeclareCompile(nb::module_& m) {
  m.def("_compile", Compile, nb::arg("models"), nb::arg("options"), nb::arg("progress").none(),
        nb::arg("output").none(), nb::arg("op_libraries"));
}

}  // namespace rondo::python
