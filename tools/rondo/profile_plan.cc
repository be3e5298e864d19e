#include <algorithm>
#include <cinttypes>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "formats/machine_code/binary_digest.h"
#include "formats/plan/plan_timeline.h"
#include "tools/rondo/collective_sweep.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/estimates.h"
#include "tools/rondo/kernel_timer.h"
#include "tools/rondo/launch.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/made_inputs.h"
#include "tools/rondo/measured_program.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/profile.h"
#include "tools/rondo/report.h"
#include "tools/rondo/run_tensors.h"
#include "tools/rondo/trusted_plan.h"

namespace rondo::tools {
namespace {

// The times of one kernel's launches, over all programs and devices.
struct KernelSum {
  uint32_t kernel = 0, source = kNone;
  double microseconds = 0, launches = 0;
};

class ProfileCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    DeclarePlan(options, &plans_);
    DeclareProfile(options, &output_, &merge_);
    DeclareProgram(options, &program_);
    DeclareInputs(options, &inputs_, kSyntheticInputs);
    options.Integer("--runs", &runs_, 3, 10000, "measure N runs whole, and N step by step (50)")
        .Flag("--alone", &alone_,
              "only the kernels of the plan's first device, on one device, without collectives: for plans of "
              "more devices than there are; inputs do not count");
    DeclareFirstInteger(options, &first_integer_);
    DeclareLoad(options, &load_);
    out_.Declare(options);
  }

  int Run() override {
    if (auto devices = ParseDevices(load_.devices); !devices.ok())
      return out_.Misuse("profile", devices.status().message());
    if (const std::string wrong = NotNamedFile(inputs_); !wrong.empty()) return out_.Misuse("profile", wrong);
    if (alone_ && (!inputs_.empty() || !program_.empty()))
      return out_.Misuse("profile", "--alone does not go with --input and --program");
    if (Status status = MeasuresAlone("profile"); !status.ok())
      return out_.Misuse("profile", status.message());
    std::error_code ignored;
    if (merge_ && std::filesystem::exists(output_, ignored)) {
      Result<TuningProfile> before = ReadProfile(output_);
      if (!before.ok()) return out_.Fail("profile", before.status().At("--merge"));
      profile_ = before.Take();
      merging_ = true;
    }
    if (Status status = Profile(); !status.ok()) return out_.Fail("profile", status);
    if (Status status = WriteProfile(profile_, output_); !status.ok()) return out_.Fail("profile", status);
    out_.Line("wrote %s: times of %zu kernels and %zu kinds of collectives on %s, %s", output_.c_str(),
              profile_.times.size(), profile_.collectives.size(), profile_.gpu.c_str(),
              profile_.architecture.c_str());
    out_.object()["profile"] = output_;
    out_.object()["gpu"] = profile_.gpu;
    out_.object()["architecture"] = profile_.architecture;
    return out_.Finish(0);
  }

 private:
  Status Profile() {
    RONDO_ASSIGN_OR_RETURN(const std::vector<Tensor> given, ReadNamedTensors(inputs_));
    RONDO_ASSIGN_OR_RETURN(const Plan plan, OpenTrusted(plans_[0], load_.keys, PlanOptionsOf(load_)));
    if (alone_) return MeasureAlone(plan.data());
    RONDO_RETURN_IF_ERROR(Sweep(plan.data()));
    RONDO_ASSIGN_OR_RETURN(std::unique_ptr<LoadedSession> loaded, LoadedSession::Create(plan, load_));
    out_.Line("on %s", loaded->runs_on().Text().c_str());
    RONDO_RETURN_IF_ERROR(NameMachine(*loaded));
    for (uint32_t p = 0; p < CountPrograms(plan.data()); ++p) {
      if (program_.empty() || plan.data().programs[p].name == program_)
        RONDO_RETURN_IF_ERROR(Measure(loaded->session, loaded->session.chosen(p), given));
    }
    if (measured_.empty()) return loaded->Program(program_).status();
    Record(plan.data());
    Compare(plan);
    return Status::Ok();
  }

  Status NameMachine(const LoadedSession& loaded) {
    const RunsOn& on = loaded.runs_on();  // for a GPU "NVIDIA H200 (0)"
    RONDO_RETURN_IF_ERROR(
        NameMachine(loaded.data(), loaded.on_host() ? "" : on.devices[0].substr(0, on.devices[0].rfind(" (")),
                    on.driver_version));
    if (!on.nccl.empty()) profile_.nccl = on.nccl;
    return Status::Ok();
  }
  // `gpu`: empty for the host.
  Status NameMachine(const PlanData& plan, const std::string& gpu, uint32_t driver_version) {
    TuningProfile here;
    here.gpu = gpu.empty() ? "host" : gpu;
    here.architecture = gpu.empty() ? "host" : std::string(plan.modules[0].architecture);
    if (merging_) RONDO_RETURN_IF_ERROR(SameMachine(profile_, here, output_));
    profile_.gpu = here.gpu;
    profile_.architecture = here.architecture;
    profile_.driver = driver_version;
    return Status::Ok();
  }

  // Times each kernel alone, launch after launch, and compares the sum with a whole run.
  Status MeasureAlone(const PlanData& plan) {
    OpRegistry registry;
    RONDO_RETURN_IF_ERROR(LoadOps(load_.ops, &registry));
    RONDO_ASSIGN_OR_RETURN(const std::vector<uint32_t> devices, ParseDevices(load_.devices));
    RONDO_ASSIGN_OR_RETURN(const DriverHandle driver, OpenDriver(plan, load_, devices, registry));
    RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(devices.empty() ? 0 : devices[0]));
    const bool host = std::string(driver->Info().name) == "host";
    RONDO_RETURN_IF_ERROR(
        NameMachine(plan, host ? "" : CudaDeviceName(device), host ? 0 : driver->Info().driver_version));
    KernelTimer timer(plan, device, {first_integer_, runs_});
    RONDO_RETURN_IF_ERROR(timer.Open());
    RONDO_ASSIGN_OR_RETURN(const size_t binaries, timer.Load(plan));
    std::map<uint64_t, KernelSum> kernels = LaunchesOf(plan, 0);
    double alone = 0;
    for (auto& [key, sum] : kernels) {
      progress_.Show("kernel %s ...", std::string(plan.kernels[sum.kernel].name).c_str());
      RONDO_ASSIGN_OR_RETURN(const double time, timer.Time(sum.kernel, binaries));
      sum.microseconds = time * sum.launches;
      alone += sum.microseconds;
    }
    RONDO_ASSIGN_OR_RETURN(const double run,
                           timer.TimeRun(std::vector<size_t>(plan.kernels.size(), binaries)));
    progress_.Clear();
    if (kernels.empty())
      return Status::Error(Code::kInvalidArgument, "the plan's first device runs no kernel");
    for (auto& [key, sum] : kernels) sum.microseconds *= run / alone;
    RecordKernels(plan, kernels);
    out_.Line("the kernels of the plan's first device take %.1f µs one after another, %.1f µs alone", run,
              alone);
    out_.object()["kernels_us"] = {{"run", run}, {"alone", alone}};
    return Status::Ok();
  }

  // By digest: the launches of all programs on one device.
  static std::map<uint64_t, KernelSum> LaunchesOf(const PlanData& plan, uint32_t device) {
    std::map<uint64_t, KernelSum> kernels;
    for (const Program& program : plan.programs) {
      for (uint32_t s = 0; s < program.steps.size(); ++s) {
        const Step& step = program.steps[s];
        if (step.kind != StepKind::kLaunch || step.device != device) continue;
        KernelSum& sum = kernels[KernelDigest(plan.kernels[step.kernel])];
        if (sum.launches == 0) sum = {step.kernel, step.source};
        sum.launches += RoundsOf(program, s);
      }
    }
    return kernels;
  }

  void RecordKernels(const PlanData& plan, const std::map<uint64_t, KernelSum>& kernels) {
    for (const auto& [key, sum] : kernels) {
      profile_.times[key] = {std::string(plan.kernels[sum.kernel].name), SourceText(plan, sum.source),
                             static_cast<uint64_t>(sum.launches),
                             ToThousandths(sum.microseconds / sum.launches)};
    }
  }

  // Times collectives alone, of the kinds and numbers of devices in the plan.
  Status Sweep(const PlanData& plan) {
    std::map<uint32_t, std::set<CollectiveOp>> asked;  // by ranks
    for (const Program& program : plan.programs) {
      for (const SyncPoint& point : program.sync_points) {
        if (point.op != CollectiveOp::kSend && point.participants.size() > 1)
          asked[static_cast<uint32_t>(point.participants.size())].insert(point.op);
      }
    }
    const bool gpu = !plan.modules.empty() && load_.driver != "host";
    for (const auto& [ranks, ops] : asked) {
      for (const bool small : {false, true}) {
        SweepOptions options{ranks, {}, small};
        for (CollectiveOp op : ops) {
          const bool can_be = op == CollectiveOp::kAllReduce || op == CollectiveOp::kAllGather ||
                              op == CollectiveOp::kReduceScatter;
          if (!small || (gpu && ranks <= 8 && can_be)) options.ops.push_back(op);
        }
        if (options.ops.empty()) continue;
        progress_.Show("collectives among %u ...", ranks);
        RONDO_ASSIGN_OR_RETURN(const std::vector<MeasuredCollective> swept,
                               SweepCollectives(plan, load_, options));
        swept_.insert(swept_.end(), swept.begin(), swept.end());
      }
    }
    progress_.Clear();
    return Status::Ok();
  }

  Status Measure(Session& session, uint32_t program, const std::vector<Tensor>& given) {
    const PlanData& plan = session.plan().data();
    progress_.Show("program %s ...", std::string(plan.programs[program].name).c_str());
    std::vector<Tensor> tensors = FillInputs(plan, program, given);
    RONDO_RETURN_IF_ERROR(SetStates(session, program, &tensors));
    const std::vector<Input> inputs = InputsOf(plan, program, tensors);
    CostModel costs = CostModelOf(plan);
    costs.measured = std::make_shared<const MeasuredTimes>(MeasuredTimes{"", {}, swept_});
    RONDO_ASSIGN_OR_RETURN(measured_[program], MeasureProgram(session, program, inputs, runs_, costs));
    progress_.Clear();
    return Status::Ok();
  }

  void Record(const PlanData& plan) {
    std::map<uint64_t, KernelSum> kernels;
    for (const auto& [p, measured] : measured_) {
      const Program& program = plan.programs[p];
      for (uint32_t s = 0; s < program.steps.size(); ++s) {
        const Step& step = program.steps[s];
        if (step.kind != StepKind::kLaunch) continue;
        KernelSum& sum = kernels[KernelDigest(plan.kernels[step.kernel])];
        if (sum.launches == 0) sum = {step.kernel, step.source};
        sum.launches += RoundsOf(program, s);
        sum.microseconds += measured.steps[s] * RoundsOf(program, s);
      }
    }
    RecordKernels(plan, kernels);
    for (const MeasuredCollective& swept : swept_) {
      const auto same = [&](const MeasuredCollective& c) {
        return c.op == swept.op && c.ranks == swept.ranks && c.small == swept.small;
      };
      const auto had = std::find_if(profile_.collectives.begin(), profile_.collectives.end(), same);
      if (had == profile_.collectives.end()) {
        profile_.collectives.push_back(swept);
        continue;
      }
      for (const auto& [bytes, time] : swept.microseconds) had->microseconds[bytes] = time;
    }
  }

  // How much collectives slow compute, from the runs with much compute beside them: the largest value.
  void FitTakenBy(CostModel costs, const PlanData& plan) {
    const std::shared_ptr<const MeasuredTimes> known = TimesOf(profile_);
    if (known == nullptr) return;
    MeasuredTimes times = *known;
    std::optional<double> most;
    for (const auto& [p, measured] : measured_) {
      const std::optional<double> taken = FitTaken(measured.run, [&](double fraction) {
        times.taken = fraction;
        costs.measured = std::make_shared<const MeasuredTimes>(times);
        return EndWith(costs, plan, plan.programs[p]);
      });
      if (taken) most = std::max(most.value_or(0), *taken);
    }
    if (!most) return;
    profile_.taken = most;
    out_.Line("compute loses %.0f %% of the time of the collectives beside it", 100 * *most);
    out_.object()["taken"] = *most;
  }

  // Compares the compiler's estimate with the one that would use the profile.
  void Compare(const Plan& plan) {
    const PlanData& data = plan.data();
    CostModel with = CostModelOf(data);
    const EstimateOrigins origins = OriginsOf(with, data);
    if (load_.collectives == "nccl") with.small = {};
    FitTakenBy(with, data);
    with.measured = TimesOf(profile_);
    out_.Line("estimates of the plan are by %s", origins.Text().c_str());
    for (const auto& [p, measured] : measured_) {
      const Program& program = data.programs[p];
      const double estimated = TimelineOf(data, program).end, now = EndWith(with, data, program);
      const std::string name(program.name);
      out_.Line(
          "program %s: a run takes %.1f µs on the devices; estimated %.1f µs (%.3f times); with the "
          "profile %.1f µs (%.3f times)",
          name.c_str(), measured.run, estimated, estimated / measured.run, now, now / measured.run);
      out_.object()["programs"].push_back({{"name", name},
                                           {"measured_us", measured.run},
                                           {"estimated_us", estimated},
                                           {"with_profile_us", now},
                                           {"event_us", measured.event},
                                           {"longer", measured.longer}});
      const std::string hash = Printf("%016" PRIx64, plan.contents_hash());
      std::erase_if(profile_.runs,
                    [&](const TimedRun& run) { return run.plan == hash && run.program == name; });
      profile_.runs.push_back(
          {hash, name, static_cast<uint32_t>(data.requirements.devices.size()), measured.run, estimated});
    }
  }

  std::vector<std::string> plans_, inputs_;
  std::string output_, program_;
  bool merge_ = false, merging_ = false, alone_ = false;
  int64_t runs_ = 50, first_integer_ = 0;
  TuningProfile profile_;
  std::vector<MeasuredCollective> swept_;
  std::map<uint32_t, MeasuredProgram> measured_;  // by program
  LoadOptions load_;
  CommandOutput out_;
  Progress progress_{&out_};
};

}  // namespace

std::unique_ptr<Command> MakeProfileCommand() { return std::make_unique<ProfileCommand>(); }

}  // namespace rondo::tools
