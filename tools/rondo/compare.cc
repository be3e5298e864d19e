#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/json_parts.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/made_inputs.h"
#include "tools/rondo/onnxruntime_values.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/reference_plan.h"
#include "tools/rondo/report.h"
#include "tools/rondo/run_tensors.h"
#include "tools/rondo/value_comparison.h"
#include "tools/rondo/wrong_nodes.h"

namespace rondo::tools {
namespace {

// A file of this process that the destructor removes.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    path_ = (folder / ("rondo-reference-" + std::to_string(getpid()) + ".rondo")).string();
  }
  ~TemporaryFile() {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// `[0, 3, 17]` of a row-major index.
std::string PlaceText(const Shape& shape, int64_t index) {
  std::string text;
  for (int d = shape.rank; d-- > 0; index /= std::max<int64_t>(shape[d], 1))
    text = std::to_string(index % std::max<int64_t>(shape[d], 1)) + (text.empty() ? "" : ", ") + text;
  return "[" + text + "]";
}

std::string Listed(const std::vector<std::string>& labels) {
  std::string text;
  for (const std::string& label : labels) text += (text.empty() ? "" : "; ") + label;
  return text;
}

class CompareCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Group("Input").Positional("FILE", &files_, 2, 2,
                                      "the reference, a plan or an ONNX model; then the plan to be compared "
                                      "with it");
    DeclareProgram(options, &program_);
    DeclareInputs(options, &inputs_,
                  "; other inputs: floats at random, indices at random within bounds, other integers 1");
    options.Integer("--seed", &seed_, 0, INT64_MAX, "of what is at random (default 1)")
        .Group("How it is compared")
        .Number("--tolerance", &tolerance_,
                "the greatest error of a float, over the larger of its magnitude and its tensor's root mean "
                "square; default by the coarsest type of both plans: f32 5e-4, f16 and tf32 0.06, bf16 0.25")
        .Flag("--bisect", &bisect_, "name the ONNX nodes that the wrong kernel computes wrongly")
        .Flag("--onnxruntime", &onnxruntime_, "the reference is the model as ONNX Runtime computes it")
        .NotTogether("--onnxruntime", "--bisect")
        .Text("--python", &python_, "with --onnxruntime: a Python with numpy, onnx and onnxruntime (python3)",
              "F")
        .Flag("--all", &all_, "list every value that was compared")
        .Integer(
            "--held", &held_, 0, int64_t{1} << 40,
            "MiB of the reference's values held at a time (default 256), one value at least; more runs where "
            "they are more")
        .Text("--reference-driver", &reference_.driver,
              "the reference's driver; default: the one that it is compiled for", "host|cuda");
#if RONDO_HAVE_COMPILER
    options.Text("--keep-reference", &keep_, "keep the plan that the model was compiled into, as a reference",
                 "PLAN");
#endif
    DeclareLoad(options, &load_);
    out_.Declare(options);
  }

  int Run() override {
    if (const std::string wrong = NotNamedFile(inputs_); !wrong.empty()) return out_.Misuse("compare", wrong);
    Result<std::vector<Tensor>> given = ReadNamedTensors(inputs_);
    if (!given.ok()) return out_.Fail("compare", given.status());
    auto loaded = LoadedSession::Open(files_[1], load_);
    if (!loaded.ok()) return out_.Fail("compare", loaded.status().At("%s", files_[1].c_str()));
    Result<uint32_t> program = (*loaded)->Program(program_);
    if (!program.ok()) return out_.Fail("compare", program.status());
    plan_ = {&(*loaded)->session, *program, {}};

    if (onnxruntime_) return CompareWithOnnxRuntime(*given, (*loaded)->runs_on());
    TemporaryFile temporary;
    std::string path = files_[0];
    if (std::filesystem::path(path).extension() == ".onnx") {
      path = keep_.empty() ? temporary.path() : keep_;
      if (const int failed = CompileModel(path); failed != 0) return failed;
    }
    reference_.ops = load_.ops;
    auto reference = LoadedSession::Open(path, reference_);
    if (!reference.ok()) return out_.Fail("compare", reference.status().At("%s", files_[0].c_str()));
    const Result<uint32_t> theirs = SameProgram(**reference);
    if (!theirs.ok()) return out_.Fail("compare", theirs.status());
    believed_ = {&(*reference)->session, *theirs, {}};
    plan_.inputs = RandomInputs(plan_.plan(), *program, *given, static_cast<uint64_t>(seed_));
    believed_.inputs = plan_.inputs;
    if (const Status status = SameInputs(); !status.ok()) return out_.Fail("compare", status);

    out_.Line("reference %s on %s", files_[0].c_str(), (*reference)->runs_on().Text().c_str());
    out_.Line("plan %s on %s", files_[1].c_str(), (*loaded)->runs_on().Text().c_str());
    out_.object() = {{"plan", files_[1]},
                     {"runs_on", ToJson((*loaded)->runs_on())},
                     {"reference", files_[0]},
                     {"reference_runs_on", ToJson((*reference)->runs_on())}};
    return Compare([&](const CompareOptions& options) { return CompareValues(plan_, believed_, options); });
  }

 private:
#if RONDO_HAVE_COMPILER
  // Writes the reference's plan.
  int CompileModel(const std::string& path) {
    const std::vector<std::string> words = ReferenceWords(files_[0], plan_.plan(), plan_.program, path);
    const std::unique_ptr<Command> compile = MakeCompileCommand();
    if (RunAs("compile", compile.get(), words) != 0) {
      std::string line;
      for (const std::string& word : words) line += " " + word;
      return out_.Fail(
          "compare",
          Status::Error(Code::kInvalidArgument,
                        "the model cannot be compiled as a reference (rondo compile%s)", line.c_str()));
    }
    return 0;
  }
#else
  int CompileModel(const std::string&) {
    return out_.Fail("compare", Status::Error(Code::kUnsupported,
                                              "%s is a model, and this build has no compiler: give a plan",
                                              files_[0].c_str()));
  }
#endif

  // The reference's program of the same name, or its only one.
  Result<uint32_t> SameProgram(const LoadedSession& reference) const {
    const std::string name(plan_.plan().programs[plan_.program].name);
    if (reference.data().programs.size() == 1) return 0u;
    return reference.Program(name);
  }

  // The port of that name, or null.
  static const Port* InputOf(const ComparedProgram& side, const std::string& name) {
    for (const Port& port : side.plan().programs[side.program].inputs) {
      if (port.name == name) return &port;
    }
    return nullptr;
  }

  Status SameInputs() const {
    for (const Tensor& tensor : plan_.inputs) {
      if (InputOf(plan_, tensor.name) == nullptr)
        return Status::Error(Code::kInvalidArgument, "the plan has no input \"%s\"", tensor.name.c_str());
      const Port* port = InputOf(believed_, tensor.name);
      if (port == nullptr)
        return Status::Error(Code::kInvalidArgument, "the reference has no input \"%s\"",
                             tensor.name.c_str());
      const Shape& has = believed_.plan().buffers[port->buffer].shape;
      char shape[256], wanted[256];
      if (has == tensor.shape) continue;
      return Status::Error(Code::kInvalidArgument,
                           "input \"%s\" is %s in the plan and %s in the reference: compile both with the "
                           "same --shape",
                           tensor.name.c_str(), Format(tensor.shape, shape, sizeof(shape)),
                           Format(has, wanted, sizeof(wanted)));
    }
    return Status::Ok();
  }

  int CompareWithOnnxRuntime(const std::vector<Tensor>& given, const RunsOn& runs_on) {
    plan_.inputs = RandomInputs(plan_.plan(), plan_.program, given, static_cast<uint64_t>(seed_));
    std::vector<Tensor> inputs = plan_.inputs;
    for (const Port& port : plan_.plan().programs[plan_.program].inputs) {
      if (!port.is_state || std::any_of(inputs.begin(), inputs.end(),
                                        [&](const Tensor& tensor) { return tensor.name == port.name; }))
        continue;
      const Buffer& buffer = plan_.plan().buffers[port.buffer];
      Result<Tensor> zeros = TensorOf(plan_.plan(), port.buffer, std::vector<uint8_t>(buffer.bytes));
      if (!zeros.ok()) return out_.Fail("compare", zeros.status());
      zeros->name = port.name;
      inputs.push_back(zeros.Take());
    }
    Result<OnnxRuntime> runtime = OnnxRuntime::Open(python_, files_[0], inputs);
    if (!runtime.ok()) return out_.Fail("compare", runtime.status());
    out_.object() = {{"plan", files_[1]}, {"runs_on", ToJson(runs_on)}, {"reference", files_[0]}};
    const int status = Compare([&](const CompareOptions& options) {
      return CompareNamedValues(
          plan_, [&](const std::vector<std::string>& names) { return runtime->Values(names); }, options);
    });
    out_.object()["onnxruntime"] = runtime->version();
    return status;
  }

  int Compare(const std::function<Result<ValueComparison>(const CompareOptions&)>& compare) {
    CompareOptions options;
    options.tolerance = tolerance_;
    options.held = static_cast<uint64_t>(held_) << 20;
    Progress progress(&out_);
    options.progress = [&](size_t done, size_t of) { progress.Show("%zu of %zu values ...", done, of); };
    Result<ValueComparison> comparison = compare(options);
    progress.Clear();
    if (!comparison.ok()) return out_.Fail("compare", comparison.status());
    if (comparison->values.empty()) {
      return out_.Fail("compare", Status::Error(Code::kInvalidArgument,
                                                "the two have no value of the same name and shape: %s is "
                                                "another model's",
                                                files_[0].c_str()));
    }
    const Result<FirstDifference> first = FindFirst(plan_, *comparison);
    if (!first.ok()) return out_.Fail("compare", first.status());
    const FirstDifference& found = *first;
    const auto differing = std::count_if(comparison->values.begin(), comparison->values.end(),
                                         [](const ComparedValue& value) { return value.differs(); });
    out_.Line("%zu values compared in %u run%s, %u are the plan's alone; %lld differ",
              comparison->values.size(), comparison->runs, comparison->runs == 1 ? "" : "s",
              comparison->alone, static_cast<long long>(differing));
    out_.object()["compared"] = comparison->values.size();
    out_.object()["runs"] = comparison->runs;
    out_.object()["alone"] = comparison->alone;
    out_.object()["differ"] = differing;
    List(*comparison);
    for (const ComparedValue* value : found.harmless)
      out_.Line("%s differs by %.3g, but all that is computed from it agrees", NameOf(*value).c_str(),
                value->error.greatest);
    if (found.value == nullptr) {
      double greatest = 0;
      for (const ComparedValue& value : comparison->values) {
        if (value.error.greatest <= value.tolerance) greatest = std::max(greatest, value.error.greatest);
      }
      out_.Line("the plan agrees with the reference; the greatest error is %.3g", greatest);
      out_.object()["agrees"] = true;
      return out_.Finish(0);
    }
    out_.object()["agrees"] = false;
    Say(found);
    if (bisect_) {
      if (const Status status = Bisect(found); !status.ok()) return out_.Fail("compare", status);
    }
    return out_.Finish(1);
  }

  std::string NameOf(const ComparedValue& value) const {
    const Buffer& buffer = plan_.plan().buffers[value.here.buffer];
    const std::string name(buffer.name);
    return (name.empty() ? "a value without a name" : "\"" + name + "\"") + " " + TypeText(buffer);
  }
  std::string StepName(uint32_t step) const {
    const Step& of = plan_.plan().programs[plan_.program].steps[step];
    return Printf("step %u, %s (%s)", step, StepText(plan_.plan(), of).c_str(),
                  SourceText(plan_.plan(), of.source).c_str());
  }
  std::string KernelName(uint32_t step) const {
    return StepText(plan_.plan(), plan_.plan().programs[plan_.program].steps[step]);
  }

  void List(const ValueComparison& comparison) {
    Section section;
    section.title = "Values, in the order of the plan's steps";
    section.table.head = {"step", "value", "error", "at most", ""};
    for (const ComparedValue& value : comparison.values) {
      section.table.rows.push_back({std::to_string(value.here.step), NameOf(value),
                                    Printf("%.3g", value.error.greatest), Printf("%.3g", value.tolerance),
                                    value.differs()   ? "differs"
                                    : value.elsewhere ? "in another order"
                                                      : ""});
      out_.object()["values"].push_back({{"name", std::string(plan_.plan().buffers[value.here.buffer].name)},
                                         {"step", value.here.step},
                                         {"error", value.error.greatest},
                                         {"at_most", value.tolerance},
                                         {"differs", value.differs()},
                                         {"in_another_order", value.elsewhere}});
    }
    if (all_) out_.Print(section);
  }

  void Say(const FirstDifference& found) {
    const ComparedValue& value = *found.value;
    const Buffer& buffer = plan_.plan().buffers[value.here.buffer];
    out_.Line("the first value that differs: %s", NameOf(value).c_str());
    out_.Line("  by %.3g, at most %.3g; the worst element %s is %.9g, should be %.9g", value.error.greatest,
              value.tolerance, PlaceText(buffer.shape, value.error.at).c_str(), value.error.got,
              value.error.want);
    out_.Line("  %s", StepName(found.steps[0]).c_str());
    for (size_t i = 1; i < found.steps.size(); ++i)
      out_.Line("  or before it, in what the reference does not have: %s", StepName(found.steps[i]).c_str());
    auto& first = out_.object()["first"];
    first = {{"value", std::string(buffer.name)}, {"step", found.steps[0]}, {"error", value.error.greatest},
             {"at_most", value.tolerance},        {"got", value.error.got}, {"expected", value.error.want}};
    for (const uint32_t step : found.steps) {
      first["steps"].push_back(
          {{"step", step},
           {"kernel", KernelName(step)},
           {"nodes", SourceText(plan_.plan(), plan_.plan().programs[plan_.program].steps[step].source)}});
    }
  }

  Status Bisect(const FirstDifference& found) {
    for (const uint32_t step : found.steps) {
      const ComparedValue* value = step == found.steps[0] ? found.value : nullptr;
      RONDO_ASSIGN_OR_RETURN(const WrongNodes wrong,
                             FindWrongNodes(plan_, step, value, believed_, found.value->tolerance));
      const std::string kernel = KernelName(step);
      if (wrong.right_on_host) {
        out_.Line(
            "%s computes the right values on the host driver: what ran here is wrong, not the plan "
            "(rondo check %s --kernels compares machine code)",
            kernel.c_str(), files_[1].c_str());
      } else if (!wrong.not_known.empty()) {
        out_.Line("%s: nothing can be said of single nodes: %s", kernel.c_str(), wrong.not_known.c_str());
      } else if (wrong.first.empty()) {
        out_.Line("%s computes the values of all its nodes", kernel.c_str());
      } else {
        out_.Line("%s does not compute: %s", kernel.c_str(), Listed(wrong.first).c_str());
        if (!wrong.right.empty()) out_.Line("  right: %s", Listed(wrong.right).c_str());
        if (!wrong.others.empty())
          out_.Line("  wrong with it, computed from it: %s", Listed(wrong.others).c_str());
      }
      out_.object()["bisect"].push_back({{"step", step},
                                         {"kernel", kernel},
                                         {"wrong", wrong.first},
                                         {"wrong_with_it", wrong.others},
                                         {"right", wrong.right},
                                         {"right_on_host", wrong.right_on_host}});
    }
    return Status::Ok();
  }

  std::vector<std::string> files_, inputs_;
  std::string program_, keep_, python_ = "python3";
  double tolerance_ = 0;
  int64_t seed_ = 1, held_ = 256;
  bool bisect_ = false, all_ = false, onnxruntime_ = false;
  LoadOptions load_, reference_;
  ComparedProgram plan_, believed_;
  CommandOutput out_;
};

}  // namespace

std::unique_ptr<Command> MakeCompareCommand() { return std::make_unique<CompareCommand>(); }

}  // namespace rondo::tools
