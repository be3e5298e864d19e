#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/compile.h"
#include "formats/plan/format.h"
#include "tools/rondo/bucket_run.h"
#include "tools/rondo/cases.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/dealt_states.h"
#include "tools/rondo/json_parts.h"
#include "tools/rondo/kernel_folder.h"
#include "tools/rondo/launch.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/model_arguments.h"
#include "tools/rondo/model_options.h"
#include "tools/rondo/report.h"
#include "tools/rondo/run_tensors.h"

namespace rondo::tools {
namespace {

constexpr double kByType = -0x1p1000;  // no --rtol is given

// A model, compiled and armed. Members are destroyed last to first: the session before what it uses.
struct Armed {
  std::unique_ptr<CompiledPlan> compiled;
  std::vector<uint8_t> weights;
  std::unique_ptr<LoadedSession> loaded;
  std::unique_ptr<BucketSession> buckets;  // null: the plan is for one shape
};

// "[0, 3, 2]": the coordinates of a row-major position.
std::string PlaceText(const Shape& shape, int64_t position) {
  int64_t at[kMaxRank] = {};
  for (int d = shape.rank - 1; d >= 0; --d) {
    at[d] = position % shape[d];
    position /= shape[d];
  }
  std::string text = "[";
  for (int d = 0; d < shape.rank; ++d) text += (d == 0 ? "" : ", ") + std::to_string(at[d]);
  return text + "]";
}

class TestCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options
        .Positional("DIR", &folders_, 1, -1,
                    "folders with model.onnx and test_data_set_*/{input,output}_i.pb, or parents of such")
        .Text("--model", &model_, "the model of all cases, instead of each folder's model.onnx", "FILE")
        .Number("--rtol", &rtol_, "relative tolerance, as in numpy.allclose (1e-3; of bf16 2^-6)")
        .Number("--atol", &atol_, "absolute tolerance (1e-5)")
        .Flag("--stepwise", &stepwise_, "replay step by step, without graphs")
        .Group("Shapes and target");
    DeclareShapes(options, &compile_, " that the model leaves open; default: the data's");
    options.Texts("--bind", &bound_, "replace an input by a constant, as compile does", "NAME=VALUE");
    DeclareBounds(options, &compile_);
    DeclareTarget(options, &compile_, "what the driver runs");
    DeclareKernelCache(options, &compile_);
    DeclareAutoState(options, &compile_);
    options.Group("Many devices");
    DeclareSharing(options, &compile_);
    options
        .Text("--devices", &load_.devices,
              "devices to compile for, {rank} in --model is their number: how many, or the driver's (0,0: "
              "two on "
              "one)",
              "N|LIST")
        .Group("Where and how it runs");
    DeclareRunning(options, &load_);
    out_.Declare(options);
  }

  int Run() override {
    Result<std::vector<uint32_t>> devices = ParseDevices(load_.devices);
    if (!devices.ok()) return out_.Misuse("test", devices.status().message());
    for (const auto& [name, value] : {std::pair("--rtol", rtol_), std::pair("--atol", atol_)}) {
      if (value != kByType && (!(value >= 0) || std::isinf(value)))
        return out_.Misuse("test", Printf("%s %g is not a finite number from 0 on", name, value));
    }
    const size_t shared = static_cast<size_t>(compile_.tensor_parallel * compile_.pipeline_parallel);
    if (shared > 1 && !devices->empty() && devices->size() != shared)
      return out_.Misuse("test", Printf("--tp %d, --pp %d: --devices %s names %zu devices",
                                        static_cast<int>(compile_.tensor_parallel),
                                        static_cast<int>(compile_.pipeline_parallel), load_.devices.c_str(),
                                        devices->size()));
    if (CompileOptions ignored; !TakeWeights(compile_.weights, &ignored))
      return out_.Misuse("test", "--weights " + compile_.weights + " is none of divide, gather");
    if (const std::string wrong = ReadTargets(); !wrong.empty()) return out_.Misuse("test", wrong);
    CompileOptions given;
    if (const std::string wrong = ReadModelArguments(compile_.shapes, bound_, &given); !wrong.empty())
      return out_.Misuse("test", wrong);
    given_shapes_ = given.shapes;
    given_lengths_ = given.lengths;
    given_bound_ = given.bound_inputs;
    if (const std::string wrong = TakeBounds(compile_.bounds, &given); !wrong.empty())
      return out_.Misuse("test", wrong);
    if (shared <= 1) devices_ = static_cast<uint32_t>(devices->size());
    if (Status status = LoadOps(load_.ops, &ops_); !status.ok()) return out_.Fail("test", status);
    if (Status status = JoinOthers(&load_); !status.ok()) return out_.Fail("test", status);
    if (load_.processes != nullptr && shared == 1) {
      const bool one_a_device = model_.find("{rank}") != model_.npos;
      devices_ = one_a_device ? load_.processes->size() : 0;
      compile_.tensor_parallel = one_a_device ? 1 : load_.processes->size();
    }
    std::vector<TestCase> cases;
    for (const std::string& folder : folders_) {
      Result<std::vector<TestCase>> found = FindCases(folder, model_);
      if (!found.ok()) return out_.Fail("test", found.status());
      if (found->empty()) Say("SKIP", folder, "it holds no test_data_set_* and no input_0.pb", &skipped_);
      cases.insert(cases.end(), found->begin(), found->end());
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      progress_.Show("case %zu of %zu: %s ...", i + 1, cases.size(), cases[i].folder.c_str());
      RunCase(cases[i]);
    }
    progress_.Clear();
    out_.object()["passed"] = passed_;
    out_.object()["failed"] = failed_;
    out_.object()["skipped"] = skipped_;
    // A run of no case is a failure: a wrong path or an unreadable type must be noticed.
    if (passed_ + failed_ == 0) {
      out_.SayError("test",
                    Status::Error(Code::kNotFound,
                                  "no data set was run: all %d that were found were skipped, as said above; "
                                  "name folders with model.onnx and test_data_set_*/{input,output}_i.pb",
                                  skipped_));
    }
    out_.Line("%d passed, %d failed, %d skipped", passed_, failed_, skipped_);
    return out_.Finish(failed_ == 0 && passed_ > 0 ? 0 : 1);
  }

 private:
  // Returns what is wrong with --target, or "".
  std::string ReadTargets() {
    const std::string text = !compile_.target.empty() ? compile_.target
                             : load_.driver == "cuda" ? "cuda:sm_90a"
                                                      : "host";
    Result<Targets> targets = ParseTargets(text);
    if (!targets.ok()) return targets.status().message();
    targets_ = *targets;
    return "";
  }

  void Say(const char* verdict, const std::string& name, const std::string& detail, int* count) {
    progress_.Clear();
    out_.Line("%s %s: %s", verdict, name.c_str(), detail.c_str());
    if (out_.quiet() && count == &failed_)
      std::fprintf(stderr, "rondo test: %s: %s\n", Printable(name).c_str(), Printable(detail).c_str());
    out_.object()["cases"].push_back({{"verdict", verdict}, {"case", name}, {"detail", detail}});
    ++*count;
  }

  void RunCase(const TestCase& test) {
    if (test.model.empty())
      return Say("SKIP", test.folder, "it has no model.onnx (name one with --model)", &skipped_);
    const Result<ModelPorts> ports = ReadModelPorts(ModelPathOn(test.model, 0));
    if (!ports.ok()) return Say("FAIL", test.folder, ports.status().message(), &failed_);
    Result<CaseTensors> tensors = ReadCase(test, *ports);
    if (!tensors.ok()) {
      const bool unsupported = tensors.status().code() == Code::kUnsupported;
      return unsupported ? Say("SKIP", test.folder, tensors.status().message(), &skipped_)
                         : Say("FAIL", test.folder, tensors.status().message(), &failed_);
    }
    std::string detail;
    Status status = Evaluate(test, *ports, *tensors, &detail);
    if (!status.ok()) return Say("FAIL", test.folder, status.message(), &failed_);
    for (const Tensor& frozen : armed_frozen_)
      detail += "; input \"" + frozen.name + "\" is frozen: the compiler must know its value";
    Say("PASS", test.folder, detail, &passed_);
  }

  // Whether a dimension has several sizes: then one plan runs the cases of all shapes that it holds.
  bool HasBuckets(const ModelPorts& ports) const {
    const auto several = [&](const auto& given) {
      const auto is_input = [&](const ModelPort& port) { return port.name == given.first; };
      return given.second.size() > 1 && std::none_of(ports.inputs.begin(), ports.inputs.end(), is_input);
    };
    return !given_lengths_.empty() || std::any_of(given_shapes_.begin(), given_shapes_.end(), several);
  }

  // Arms the model for the shapes of `inputs`, unless the last case did so.
  Status Arm(const TestCase& test, const ModelPorts& ports, const CaseTensors& tensors) {
    const std::vector<Tensor>& inputs = tensors.inputs;
    std::map<std::string, std::vector<int64_t>> shapes = given_shapes_;
    for (const ModelPort& input : ports.inputs) {
      if (!input.open || given_shapes_.count(input.name) != 0 || HasBuckets(ports)) continue;
      for (const Tensor& tensor : inputs) {
        if (tensor.name == input.name || (input.is_sequence && tensor.name.starts_with(input.name + ".")))
          shapes[tensor.name].assign(tensor.shape.begin(), tensor.shape.end());
      }
      if (input.is_sequence &&
          std::find(tensors.empty.begin(), tensors.empty.end(), input.name) != tensors.empty.end())
        shapes[input.name] = {0};
    }
    const auto frozen_alike = [&] {
      return std::all_of(armed_frozen_.begin(), armed_frozen_.end(), [&](const Tensor& frozen) {
        return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& tensor) {
          return tensor.name == frozen.name && tensor.shape == frozen.shape && tensor.bytes == frozen.bytes;
        });
      });
    };
    if (armed_ && armed_->loaded != nullptr && armed_model_ == test.model && armed_shapes_ == shapes &&
        frozen_alike())
      return Status::Ok();
    armed_.emplace();  // the old members are destroyed last to first before new ones are made
    CompileOptions options;
    options.models = {{"main", test.model}};
    options.shapes = shapes;
    options.lengths = given_lengths_;
    options.bound_inputs = given_bound_;
    for (const Tensor& tensor : inputs) options.values_at_hand.emplace(tensor.name, BoundValue(tensor));
    options.devices = devices_;
    options.tensor_parallel = static_cast<uint32_t>(compile_.tensor_parallel);
    options.chunks = static_cast<uint32_t>(compile_.chunks);
    options.pipeline_parallel = static_cast<uint32_t>(compile_.pipeline_parallel);
    TakeBounds(compile_.bounds, &options);
    TakeWeights(compile_.weights, &options);
    // With several processes, caches stay whole: each process has only its own devices' shares of sharded
    // states.
    options.auto_state = !compile_.no_auto_state && load_.processes == nullptr;
    options.targets = targets_;
    if (options.targets.any_gpu() && !compile_.no_kernel_cache)
      options.kernel_cache = DefaultKernelFolder("test");
    options.library_path = load_.library_path;
    options.ops = &ops_;
    RONDO_ASSIGN_OR_RETURN(CompiledPlan compiled, CompileToMemory(options));
    armed_->compiled = std::make_unique<CompiledPlan>(std::move(compiled));
    armed_->weights = AssembleWeights(*armed_->compiled);
    RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::FromData(armed_->compiled->plan, armed_->weights));
    RONDO_ASSIGN_OR_RETURN(armed_->loaded, LoadedSession::Create(plan, load_));
    RONDO_ASSIGN_OR_RETURN(armed_->buckets, OpenBuckets(armed_->loaded->session, ""));
    if (gpus_ == nullptr && load_.processes == nullptr) gpus_ = KeepGpusOpen(*armed_->loaded, load_);
    if (out_.object().count("runs_on") == 0) {  // once, as it is the same for all cases
      out_.Line("on %s", armed_->loaded->runs_on().Text().c_str());
      out_.object()["runs_on"] = ToJson(armed_->loaded->runs_on());
    }
    armed_frozen_.clear();
    for (const std::string& name : armed_->compiled->report.programs[0].frozen) {
      armed_frozen_.push_back(*std::find_if(inputs.begin(), inputs.end(),
                                            [&](const Tensor& tensor) { return tensor.name == name; }));
    }
    armed_model_ = test.model;
    armed_shapes_ = shapes;
    return Status::Ok();
  }

  Status Evaluate(const TestCase& test, const ModelPorts& ports, CaseTensors& tensors, std::string* detail) {
    if (tensors.outputs.empty()) return Status::Error(Code::kInvalidArgument, "there is no output_0.pb");

    RONDO_RETURN_IF_ERROR(Arm(test, ports, tensors));
    // A bound input is no longer an input.
    std::erase_if(tensors.inputs, [&](const Tensor& tensor) {
      return given_bound_.count(tensor.name) != 0 ||
             std::any_of(armed_frozen_.begin(), armed_frozen_.end(),
                         [&](const Tensor& frozen) { return frozen.name == tensor.name; });
    });
    RONDO_RETURN_IF_ERROR(armed_->loaded->session.ResetState());
    RunOptions run;
    run.stepwise = stepwise_;
    if (armed_->buckets != nullptr) {
      RONDO_ASSIGN_OR_RETURN(const TrueRun bucket,
                             ChooseFor(armed_->loaded->data(), armed_->buckets->family(), tensors.inputs));
      RONDO_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs,
                             RunOnBuckets(armed_->loaded->session, *armed_->buckets, bucket, run));
      RONDO_RETURN_IF_ERROR(CompareAll(outputs, tensors.outputs, detail));
      *detail += ", in the bucket " + std::string(armed_->loaded->data().programs[bucket.program].name);
      return Status::Ok();
    }
    if (load_.processes != nullptr) {
      RONDO_ASSIGN_OR_RETURN(std::vector<Tensor> own,
                             RunOnTensors(armed_->loaded->session, 0, tensors.inputs, run));
      return CompareProcesses(std::move(own), tensors.outputs, detail);
    }
    // A case holds whole caches, of which each device has a share.
    const PlanData& plan = armed_->loaded->data();
    const std::vector<StateShare>& shares = armed_->compiled->report.state_shares;
    RONDO_ASSIGN_OR_RETURN(const std::vector<Tensor> dealt, DealStates(plan, 0, shares, tensors.inputs));
    RONDO_ASSIGN_OR_RETURN(std::vector<Tensor> left, RunOnTensors(armed_->loaded->session, 0, dealt, run));
    RONDO_ASSIGN_OR_RETURN(const std::vector<Tensor> got, JoinStates(plan, 0, shares, std::move(left)));
    return CompareAll(got, tensors.outputs, detail);
  }

  // Each process compares the results of its device; all devices must give the same bits.
  Status CompareProcesses(std::vector<Tensor> got, std::vector<Tensor> want, std::string* detail) const {
    Processes& processes = *load_.processes;
    const std::string mark = "@" + std::to_string(processes.rank());
    std::map<std::string, Tensor*> by_name;
    for (Tensor& tensor : got) by_name[tensor.name] = &tensor;
    for (Tensor& tensor : want) {
      if (const auto own = by_name.find(tensor.name + mark); own != by_name.end())
        own->second->name = tensor.name;
    }
    const size_t wanted_in_all = want.size();
    std::erase_if(want, [&](const Tensor& wanted) {
      return std::none_of(got.begin(), got.end(),
                          [&](const Tensor& tensor) { return tensor.name == wanted.name; });
    });
    struct Verdict {
      uint64_t digest = 0, outputs = 0;
      char text[1024] = {};
    } mine, all[kMaxProcesses];
    const Status compared = CompareAll(got, want, detail);
    std::snprintf(mine.text, sizeof(mine.text), "%s", compared.message());
    for (const Tensor& wanted : want) {
      for (const Tensor& tensor : got) {
        if (tensor.name == wanted.name)
          mine.digest = HashBytes(tensor.bytes.data(), tensor.bytes.size(), mine.digest);
      }
    }
    mine.outputs = want.size();
    RONDO_RETURN_IF_ERROR(processes.Gather(Status::Ok(), &mine, all, sizeof(mine), nullptr));
    RONDO_RETURN_IF_ERROR(compared);
    uint64_t outputs = 0;
    const Verdict* first = nullptr;  // of the verdicts with all outputs
    for (uint32_t r = 0; r < processes.size(); ++r) {
      if (all[r].text[0] != 0) return Status::Error(Code::kInternal, "process %u: %s", r, all[r].text);
      outputs += all[r].outputs;
      if (all[r].outputs != wanted_in_all) continue;
      if (first == nullptr) first = &all[r];
      if (all[r].digest == first->digest) continue;
      return Status::Error(Code::kInternal, "process %u gives other bits than process %d", r,
                           static_cast<int>(first - all));
    }
    if (outputs < wanted_in_all) {
      return Status::Error(Code::kInternal, "%zu outputs are expected; the processes have %llu",
                           wanted_in_all, static_cast<unsigned long long>(outputs));
    }
    return Status::Ok();
  }

  // Several devices must give the same bits of one output.
  static Status CompareDevices(const std::vector<Tensor>& got, const Tensor& first) {
    for (const Tensor& other : got) {
      const size_t at = other.name.rfind('@');
      if (at == std::string::npos || other.name.substr(0, at) != first.name || other.bytes == first.bytes)
        continue;
      return Status::Error(Code::kInternal, "output \"%s\": device %s gives other bits than device 0",
                           first.name.c_str(), other.name.substr(at + 1).c_str());
    }
    return Status::Ok();
  }

  Status CompareAll(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                    std::string* detail) const {
    double greatest = 0;
    *detail = "equal";
    for (const Tensor& expected : want) {
      const auto found = std::find_if(got.begin(), got.end(),
                                      [&](const Tensor& tensor) { return tensor.name == expected.name; });
      if (found == got.end()) {
        return Status::Error(Code::kInternal, "the plan has no output \"%s\"", expected.name.c_str());
      }
      RONDO_RETURN_IF_ERROR(CompareDevices(got, *found));
      // Two roundings to bf16 exceed the tolerance of other types.
      const double rtol = rtol_ != kByType ? rtol_ : expected.dtype == DType::kBF16 ? 0x1p-6 : 1e-3;
      Result<Comparison> result = Compare(*found, expected, rtol, atol_);
      if (!result.ok()) return result.status().At("output \"%s\"", expected.name.c_str());
      if (result->mismatches > 0) {
        return Status::Error(Code::kInternal,
                             "output \"%s\": %lld of %lld elements differ, most at %s: got %.9g, expected "
                             "%.9g (greatest error %.3g)",
                             expected.name.c_str(), static_cast<long long>(result->mismatches),
                             static_cast<long long>(expected.shape.elements()),
                             PlaceText(expected.shape, result->at).c_str(), result->got, result->want,
                             result->greatest_error);
      }
      if (result->greatest_error > greatest) {
        greatest = result->greatest_error;
        *detail = Printf("greatest error %.3g, least room in \"%s\" at %s: got %.9g, expected %.9g", greatest,
                         expected.name.c_str(), PlaceText(expected.shape, result->at).c_str(), result->got,
                         result->want);
      }
    }
    return Status::Ok();
  }

  ModelOptions compile_{.tensor_parallel = 1, .pipeline_parallel = 1};
  Targets targets_;
  std::vector<std::string> bound_;
  std::map<std::string, std::vector<int64_t>> given_shapes_, given_lengths_;  // from --shape
  BoundValues given_bound_;                                                   // from --bind
  uint32_t devices_ = 0;  // for models that exist once per device; 0: one model
  std::vector<std::string> folders_;
  std::string model_;
  double rtol_ = kByType, atol_ = 1e-5;
  bool stepwise_ = false;
  LoadOptions load_;
  OpRegistry ops_;
  CommandOutput out_;
  Progress progress_{&out_};

  DriverHandle gpus_{nullptr, nullptr};  // kept from case to case
  std::optional<Armed> armed_;
  std::string armed_model_;
  std::map<std::string, std::vector<int64_t>> armed_shapes_;
  std::vector<Tensor> armed_frozen_;  // inputs with values for which the armed plan was compiled
  int passed_ = 0, failed_ = 0, skipped_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeTestCommand() { return std::make_unique<TestCommand>(); }

}  // namespace rondo::tools
