#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/rondo/bucket_run.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/json_parts.h"
#include "tools/rondo/launch.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/report.h"
#include "tools/rondo/run_tensors.h"
#include "tools/rondo/step_values.h"
#include "tools/rondo/timings.h"
#include "tools/rondo/verify_run.h"

namespace rondo::tools {
namespace {

// A file name for an output. Characters with a meaning in paths become '_', and names too long for a folder
// are cut. Avoids names in `taken` and adds the new one.
std::string FileNameOf(const std::string& name, std::set<std::string>* taken) {
  constexpr size_t kLongest = 200;
  std::string file;
  for (size_t at = 0; at < name.size() && file.size() < kLongest;) {
    const size_t bytes = PrintableBytes(name, at);
    const bool kept = bytes > 0 && std::string_view("/\\:").find(name[at]) == std::string_view::npos;
    file += kept ? name.substr(at, bytes) : "_";
    at += std::max<size_t>(bytes, 1);
  }
  if (file.empty() || file[0] == '.') file = "_" + file;
  std::string unique = file;
  for (int n = 2; !taken->insert(unique).second; ++n) unique = file + "_" + std::to_string(n);
  return unique;
}

class RunCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    DeclarePlan(options, &plans_);
    DeclareInputs(options, &inputs_);
    options
        .Text("--output", &output_, "folder for all outputs, NAME.npy each; made if it is not there", "DIR")
        .Text("--format", &format_, "of the output files (npy)", "npy|pb");
    DeclareProgram(options, &program_);
    options.Texts(
        "--dump", &dumped_,
        "write this intermediate value, or the values of this ONNX node, among the outputs; the run "
        "is step by step",
        "NAME");
    options.Integer("--repeat", &repeat_, 1, 1000000000, "run N times; state carries on from run to run")
        .Flag("--verify", &verify_,
              "replay every program (or --program) step by step over poisoned memory, compare with graph "
              "replay, and say where memory is not used as the plan says");
    DeclareTrace(options, &trace_);
    DeclareLoad(options, &load_);
    out_.Declare(options);
  }

  int Run() override {
    if (auto devices = ParseDevices(load_.devices); !devices.ok())
      return out_.Misuse("run", devices.status().message());
    if (const std::string wrong = NotNamedFile(inputs_); !wrong.empty()) return out_.Misuse("run", wrong);
    Result<std::vector<Tensor>> inputs = ReadNamedTensors(inputs_);
    if (!inputs.ok()) return out_.Fail("run", inputs.status());
    if (const Status joined = JoinOthers(&load_); !joined.ok()) return out_.Fail("run", joined);
    if (verify_) return Verify(*inputs);
    if (!trace_.empty() && !dumped_.empty())
      return out_.Misuse("run", "--trace is of graphs, and --dump runs step by step: give one of them");
    auto loaded = LoadedSession::Open(plans_[0], load_);
    if (!loaded.ok()) return out_.Fail("run", loaded.status());
    Session& session = (*loaded)->session;
    auto buckets = OpenBuckets(session, program_);
    if (!buckets.ok()) return out_.Fail("run", buckets.status());
    Result<TrueRun> bucket = TrueRun();
    if (*buckets != nullptr) bucket = ChooseFor((*loaded)->data(), (*buckets)->family(), *inputs);
    if (!bucket.ok()) return out_.Fail("run", bucket.status());
    Result<uint32_t> program = *buckets != nullptr ? bucket->program : (*loaded)->Program(program_);
    if (!program.ok()) return out_.Fail("run", program.status());
    if (session.chosen(*program) != kNone) *program = session.chosen(*program);
    if (const std::string variants = (*loaded)->Variants(); !variants.empty())
      out_.Line("runs as %s", Printable(variants).c_str());

    RunTimer timer;
    RunOptions options;
    if (!trace_.empty()) {
      Result<RunTimer> made = RunTimer::Create(session, *program, TimerDetail::kSteps);
      if (!made.ok()) return out_.Fail("run", made.status());
      timer = made.Take();
      options.timer = &timer;
    }
    std::vector<StepValue> wanted;
    for (const std::string& name : dumped_) {
      Result<std::vector<StepValue>> values = ValuesCalled((*loaded)->data(), *program, name);
      if (!values.ok()) return out_.Fail("run", values.status().At("--dump"));
      wanted.insert(wanted.end(), values->begin(), values->end());
    }
    std::map<uint32_t, Tensor> dumped;  // by buffer
    const ValueTaker::Take take = [&](const StepValue& value, std::vector<uint8_t> bytes) {
      dumped[value.buffer] = DumpOf((*loaded)->data(), value.buffer, std::move(bytes));
      return Status::Ok();
    };
    ValueTaker taker(session, wanted, take);
    if (!wanted.empty()) options = taker.options();
    std::vector<Tensor> outputs;
    Progress progress(&out_);
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < repeat_; ++i) {
      progress.Show("run %lld of %lld ...", static_cast<long long>(i + 1), static_cast<long long>(repeat_));
      Result<std::vector<Tensor>> result = *buckets != nullptr
                                               ? RunOnBuckets(session, **buckets, *bucket, options)
                                               : RunOnTensors(session, *program, *inputs, options);
      if (!result.ok()) return out_.Fail("run", result.status());
      outputs = result.Take();
      if (i == 0 && *buckets == nullptr) DropStates((*loaded)->data(), *program, &*inputs);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    progress.Clear();
    out_.Line("%lld run%s in %.3f ms on %s", static_cast<long long>(repeat_), repeat_ == 1 ? "" : "s",
              took.count() * 1e3, (*loaded)->runs_on().Text().c_str());
    out_.object() = {{"plan", plans_[0]},
                     {"program", std::string((*loaded)->data().programs[*program].name)},
                     {"runs_on", ToJson((*loaded)->runs_on())},
                     {"runs", repeat_},
                     {"milliseconds", took.count() * 1e3}};
    if (*buckets != nullptr) {
      const std::string lengths = LengthsText((*buckets)->family(), bucket->choice);
      out_.Line("bucket %s holds %s", std::string((*loaded)->data().programs[*program].name).c_str(),
                lengths.c_str());
      out_.object()["lengths"] = lengths;
    }
    if (Status status = Trace((*loaded)->data(), *program, timer); !status.ok())
      return out_.Fail("run", status);
    for (auto& [buffer, tensor] : dumped) {
      const auto same = [&, name = tensor.name](const Tensor& output) { return output.name == name; };
      if (std::none_of(outputs.begin(), outputs.end(), same)) outputs.push_back(std::move(tensor));
    }
    return out_.Finish(WriteOutputs((*loaded)->data().programs[*program], outputs));
  }

 private:
  int Verify(const std::vector<Tensor>& inputs) {
    if (!trace_.empty() || !output_.empty() || !dumped_.empty() || repeat_ != 1)
      return out_.Misuse("run", "--verify does without --trace, --output, --dump and --repeat");
    if (load_.processes != nullptr)
      return out_.Misuse("run", "--verify wants all devices of a plan in one process");
    Result<bool> good = VerifyRun(plans_[0], load_, program_, inputs, &out_);
    return good.ok() ? out_.Finish(*good ? 0 : 1) : out_.Fail("run", good.status());
  }

  // If a value's shape does not tell the layout of its bytes, they are written unchanged.
  static Tensor DumpOf(const PlanData& plan, uint32_t buffer, std::vector<uint8_t> bytes) {
    const Shape shape{static_cast<int64_t>(bytes.size())};
    Result<Tensor> tensor = TensorOf(plan, buffer, bytes);
    Tensor dump = tensor.ok()
                      ? tensor.Take()
                      : Tensor{std::string(plan.buffers[buffer].name), DType::kU8, shape, std::move(bytes)};
    if (dump.name.empty()) dump.name = "buffer_" + std::to_string(buffer);
    return dump;
  }

  Status Trace(const PlanData& plan, uint32_t program, const RunTimer& timer) const {
    if (trace_.empty() || (load_.processes != nullptr && load_.processes->rank() != 0)) return Status::Ok();
    RONDO_ASSIGN_OR_RETURN(std::vector<TimedInterval> intervals, ReadAll(timer));
    return WriteTrace(plan, {{program, TimerDetail::kSteps, intervals}}, trace_);
  }

  // The files of several processes are in one folder, so each name must be that of one output of the whole
  // program.
  int WriteOutputs(const Program& program, const std::vector<Tensor>& outputs) {
    std::set<std::string> taken;
    std::map<std::string, std::string> files;
    for (const Port& port : program.outputs)
      files[std::string(port.name)] = FileNameOf(std::string(port.name), &taken);
    for (const Tensor& tensor : outputs) {
      if (files.count(tensor.name) == 0) files[tensor.name] = FileNameOf(tensor.name, &taken);
    }
    std::error_code error;
    if (!output_.empty()) std::filesystem::create_directories(output_, error);
    if (error) {
      return out_.Fail("run", Status::Error(Code::kIo, "cannot make folder %s: %s", output_.c_str(),
                                            error.message().c_str()));
    }
    for (const Tensor& tensor : outputs) {
      char shape[256];
      std::string where = "(not written: no --output)";
      if (!output_.empty()) {
        where = output_ + "/" + files[tensor.name] + "." + format_;
        if (Status status = WriteTensor(tensor, where); !status.ok()) return out_.Fail("run", status);
      }
      out_.Line("%s %s%s %s", tensor.name.c_str(), Name(tensor.dtype),
                Format(tensor.shape, shape, sizeof(shape)), where.c_str());
      out_.object()["outputs"].push_back(
          {{"name", tensor.name},
           {"dtype", Name(tensor.dtype)},
           {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
           {"file", output_.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(where)}});
    }
    return 0;
  }

  std::vector<std::string> plans_, inputs_, dumped_;
  std::string output_, program_, trace_, format_ = "npy";
  int64_t repeat_ = 1;
  bool verify_ = false;
  LoadOptions load_;
  CommandOutput out_;
};

}  // namespace

std::unique_ptr<Command> MakeRunCommand() { return std::make_unique<RunCommand>(); }

}  // namespace rondo::tools
