#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/kernel_check.h"
#include "tools/rondo/kernel_timer.h"
#include "tools/rondo/launch.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/profile.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

// A choice replaces the present one only if a run gains this share of the kernel's own time, and of the run.
// Medians differ by as much between measurements.
constexpr double kLeastGain = 0.02, kLeastGainOfRun = 0.002;

bool SameBinary(const KernelBinary& a, const KernelBinary& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == BinaryKind::kLibraryMatmul) return a.matmul->algorithm == b.matmul->algorithm;
  return a.code == b.code && a.entry == b.entry && a.grid == b.grid;
}

// A kernel with alternatives.
struct Candidate {
  uint32_t kernel = 0, launches = 0;
  std::string present;  // the name of the choice that the plan runs
  double alone = 0;     // microseconds per launch, launched repeatedly
  std::vector<const KernelAlternative*> others;
  std::map<std::string, size_t> binaries;  // the timer's numbers, by choice
  std::map<std::string, double> runs;      // microseconds of a whole run with the choice
  std::vector<std::string> wrong;          // choices whose results are wrong
  double present_run = 0;
  std::string best;
};

// The plan with some kernels' binaries replaced. Not movable, because the plan points into it.
struct Exchanged {
  explicit Exchanged(const PlanData& of) : plan(of), module(of.modules[0]) {
    binaries.assign(module.binaries.begin(), module.binaries.end());
  }
  Exchanged(const Exchanged&) = delete;
  void Finish() {
    module.binaries = Span<const KernelBinary>(binaries);
    plan.modules = Span<const CodeModule>(&module, 1);
  }
  PlanData plan;
  CodeModule module;
  std::vector<KernelBinary> binaries;
  std::map<uint32_t, std::string> choices;  // of the replaced kernels
};

std::vector<Candidate> CandidatesOf(const PlanData& plan) {
  std::map<uint32_t, Candidate> found;
  const CodeModule& module = plan.modules[0];
  for (const KernelAlternative& alternative : module.alternatives) {
    Candidate& candidate = found[alternative.kernel];
    candidate.kernel = alternative.kernel;
    if (SameBinary(alternative.binary, module.binaries[alternative.kernel])) {
      candidate.present = alternative.choice;
    } else {
      candidate.others.push_back(&alternative);
    }
  }
  std::vector<Candidate> candidates;
  for (auto& [kernel, candidate] : found) {
    for (const Program& program : plan.programs) {
      for (uint32_t s = 0; s < program.steps.size(); ++s) {
        const Step& step = program.steps[s];
        if (step.kind == StepKind::kLaunch && step.kernel == kernel)
          candidate.launches += RoundsOf(program, s);
      }
    }
    // The present binary may be a library's, or unnamed: it is measured, but no choice can ask for it.
    if (candidate.launches > 0 && !candidate.others.empty()) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// The number of plans is the largest number of alternatives of a kernel. In plan n each kernel has its
// alternative n.
std::vector<std::unique_ptr<Exchanged>> ExchangedPlans(const PlanData& plan,
                                                       const std::vector<Candidate>& candidates) {
  std::vector<std::unique_ptr<Exchanged>> plans;
  for (const Candidate& candidate : candidates) {
    for (size_t i = 0; i < candidate.others.size(); ++i) {
      if (i == plans.size()) plans.push_back(std::make_unique<Exchanged>(plan));
      plans[i]->binaries[candidate.kernel] = candidate.others[i]->binary;
      plans[i]->choices[candidate.kernel] = candidate.others[i]->choice;
    }
  }
  for (auto& exchanged : plans) exchanged->Finish();
  return plans;
}

class TuneCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    load_.driver = "cuda";
    DeclarePlan(options, &plans_, "the plan file, compiled with --alternatives");
    DeclareProfile(options, &output_, &merge_);
    options.Integer("--runs", &runs_, 3, 10000, "the median of N replays counts (50)");
    DeclareFirstInteger(options, &first_integer_);
    DeclareLibraryPath(options, &load_.library_path);
    out_.Declare(options);
  }

  int Run() override {
    if (Status status = MeasuresAlone("tune"); !status.ok()) return out_.Misuse("tune", status.message());
    TuningProfile profile;
    std::error_code ignored;
    if (merge_ && std::filesystem::exists(output_, ignored)) {
      Result<TuningProfile> before = ReadProfile(output_);
      if (!before.ok()) return out_.Fail("tune", before.status().At("--merge"));
      profile = before.Take();
      merging_ = true;
    }
    Result<Plan> plan = Plan::Open(plans_[0].c_str());
    if (!plan.ok()) return out_.Fail("tune", plan.status());
    if (Status status = Tune(plan->data(), &profile); !status.ok()) return out_.Fail("tune", status);
    if (Status status = WriteProfile(profile, output_); !status.ok()) return out_.Fail("tune", status);
    out_.Line("wrote %s: %zu kernels on %s, %s", output_.c_str(), profile.kernels.size(), profile.gpu.c_str(),
              profile.architecture.c_str());
    nlohmann::ordered_json& json = out_.object();
    json["profile"] = output_;
    json["gpu"] = profile.gpu;
    json["architecture"] = profile.architecture;
    return out_.Finish(0);
  }

 private:
  Status Tune(const PlanData& plan, TuningProfile* profile) {
    if (plan.modules.empty())
      return Status::Error(Code::kInvalidArgument,
                           "%s holds no machine code: compile it with --target cuda:sm_90a --alternatives 6",
                           plans_[0].c_str());
    std::vector<Candidate> candidates = CandidatesOf(plan);
    if (candidates.empty())
      return Status::Error(Code::kInvalidArgument,
                           "%s holds no alternatives to measure: compile it with --alternatives 6",
                           plans_[0].c_str());
    RONDO_ASSIGN_OR_RETURN(DriverHandle driver, OpenDriver(plan, load_, {}, registry_));
    RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(0));
    TuningProfile now;
    now.gpu = CudaDeviceName(device);
    now.architecture = std::string(plan.modules[0].architecture);
    now.driver = driver->Info().driver_version;
    if (merging_) RONDO_RETURN_IF_ERROR(SameMachine(*profile, now, output_));
    const std::vector<std::unique_ptr<Exchanged>> plans = ExchangedPlans(plan, candidates);
    RONDO_RETURN_IF_ERROR(DropWhatIsNotThere(plan, device, plans));
    RONDO_RETURN_IF_ERROR(Check(plan, driver.get(), plans, &candidates));
    RONDO_RETURN_IF_ERROR(Measure(plan, device, plans, &candidates));
    profile->gpu = now.gpu;
    profile->architecture = now.architecture;
    profile->driver = now.driver;
    for (const Candidate& candidate : candidates) Record(plan, candidate, profile);
    PrintTable(plan, candidates);
    return Status::Ok();
  }

  // A library may lack an algorithm that the compiler listed; such alternatives are left out.
  static Status DropWhatIsNotThere(const PlanData& plan, Device* device,
                                   const std::vector<std::unique_ptr<Exchanged>>& plans) {
    for (const auto& exchanged : plans) {
      Result<Module*> module = device->LoadModule(exchanged->plan);
      if (!module.ok()) {
        std::fprintf(stderr, "rondo tune: left out: %s\n", module.status().message());
        for (size_t k = 0; k < exchanged->binaries.size(); ++k) {
          if (exchanged->binaries[k].kind != BinaryKind::kLibraryMatmul) continue;
          exchanged->binaries[k] = plan.modules[0].binaries[k];
          exchanged->choices.erase(static_cast<uint32_t>(k));
        }
        RONDO_ASSIGN_OR_RETURN(module, device->LoadModule(exchanged->plan));
      }
      device->DestroyModule(*module);
    }
    return Status::Ok();
  }

  // Compares the results of every alternative with those of the binary that the plan runs.
  Status Check(const PlanData& plan, Driver* driver, const std::vector<std::unique_ptr<Exchanged>>& plans,
               std::vector<Candidate>* candidates) {
    for (Candidate& candidate : *candidates) {
      progress_.Show("checking %s ...", std::string(plan.kernels[candidate.kernel].name).c_str());
      std::vector<const PlanData*> others;
      std::vector<std::string> choices;
      for (const auto& exchanged : plans) {
        if (exchanged->choices.count(candidate.kernel) == 0) continue;
        others.push_back(&exchanged->plan);
        choices.push_back(exchanged->choices[candidate.kernel]);
      }
      RONDO_ASSIGN_OR_RETURN(const std::vector<KernelVerdict> verdicts,
                             CheckBinaries(plan, candidate.kernel, others, driver, 1));
      for (size_t i = 0; i < verdicts.size(); ++i) {
        if (verdicts[i].failures.empty()) continue;
        candidate.wrong.push_back(choices[i]);
        progress_.Clear();
        std::fprintf(stderr, "rondo tune: %s is never chosen: %s\n", Printable(choices[i]).c_str(),
                     Printable(verdicts[i].failures[0]).c_str());
      }
    }
    return Status::Ok();
  }

  // A kernel takes another time among its neighbours than alone: its overlap with them depends on the
  // multiprocessors that it leaves free. So whole runs are timed, with one kernel replaced.
  Status Measure(const PlanData& plan, Device* device, const std::vector<std::unique_ptr<Exchanged>>& plans,
                 std::vector<Candidate>* candidates) {
    KernelTimerOptions options;
    options.first_integer = first_integer_;
    options.replays = runs_;
    KernelTimer timer(plan, device, options);
    RONDO_RETURN_IF_ERROR(timer.Open());
    RONDO_ASSIGN_OR_RETURN(const size_t present, timer.Load(plan));
    std::vector<size_t> numbers;
    for (const auto& exchanged : plans) {
      RONDO_ASSIGN_OR_RETURN(const size_t loaded, timer.Load(exchanged->plan));
      numbers.push_back(loaded);
    }
    std::vector<size_t> binaries(plan.kernels.size(), present), best = binaries;
    for (Candidate& candidate : *candidates) {
      progress_.Show("measuring %s ...", std::string(plan.kernels[candidate.kernel].name).c_str());
      RONDO_ASSIGN_OR_RETURN(candidate.alone, timer.Time(candidate.kernel, present));
      // The present choice is measured before and after, so that drift does not look like a gain.
      RONDO_ASSIGN_OR_RETURN(const double before, timer.TimeRun(binaries));
      for (size_t i = 0; i < candidate.others.size(); ++i) {
        if (plans[i]->choices.count(candidate.kernel) == 0) continue;
        const std::string choice(candidate.others[i]->choice);
        candidate.binaries[choice] = binaries[candidate.kernel] = numbers[i];
        RONDO_ASSIGN_OR_RETURN(candidate.runs[choice], timer.TimeRun(binaries));
      }
      binaries[candidate.kernel] = present;
      RONDO_ASSIGN_OR_RETURN(const double after, timer.TimeRun(binaries));
      candidate.present_run = std::min(before, after);
      Choose(&candidate);
      if (candidate.best != candidate.present) best[candidate.kernel] = candidate.binaries[candidate.best];
    }
    RONDO_ASSIGN_OR_RETURN(present_run_, timer.TimeRun(binaries));
    RONDO_ASSIGN_OR_RETURN(best_run_, timer.TimeRun(best));
    progress_.Clear();
    return Status::Ok();
  }

  static void Choose(Candidate* candidate) {
    candidate->best = candidate->present;
    const double least = std::max(kLeastGain * candidate->alone * candidate->launches,
                                  kLeastGainOfRun * candidate->present_run);
    double best = candidate->present_run - least;
    for (const auto& [choice, time] : candidate->runs) {
      const bool wrong = std::count(candidate->wrong.begin(), candidate->wrong.end(), choice) > 0;
      if (wrong || time >= best) continue;
      candidate->best = choice;
      best = time;
    }
    if (!candidate->present.empty()) candidate->runs[candidate->present] = candidate->present_run;
  }

  static void Record(const PlanData& plan, const Candidate& candidate, TuningProfile* profile) {
    if (candidate.best.empty()) return;
    ProfiledKernel entry;
    entry.kernel = std::string(plan.kernels[candidate.kernel].name);
    entry.source = SourceOf(plan, candidate.kernel);
    entry.choice = candidate.best;
    entry.microseconds = candidate.runs;
    for (const std::string& choice : candidate.wrong) entry.microseconds.erase(choice);
    profile->kernels[KernelDigest(plan.kernels[candidate.kernel])] = std::move(entry);
  }

  // The source of the first step that launches the kernel.
  static std::string SourceOf(const PlanData& plan, uint32_t kernel) {
    for (const Program& program : plan.programs) {
      for (const Step& step : program.steps) {
        if (step.kind == StepKind::kLaunch && step.kernel == kernel) return SourceText(plan, step.source);
      }
    }
    return "";
  }

  void PrintTable(const PlanData& plan, const std::vector<Candidate>& candidates) {
    Section section;
    section.title = "Kernels with alternatives; microseconds of a launch alone, and of runs";
    section.table.head = {"kernel", "launches", "present", "alone",    "run",
                          "best",   "run ",     "gain %",  "measured", "source"};
    for (const Candidate& c : candidates) {
      const bool stays = c.best == c.present;
      const double best = stays ? c.present_run : c.runs.at(c.best);
      section.table.rows.push_back({std::string(plan.kernels[c.kernel].name), std::to_string(c.launches),
                                    c.present, Printf("%.2f", c.alone), Printf("%.1f", c.present_run),
                                    stays ? "the present" : c.best, Printf("%.1f", best),
                                    Printf("%.2f", 100 * (1 - best / c.present_run)),
                                    std::to_string(c.runs.size()), SourceOf(plan, c.kernel).substr(0, 40)});
      out_.object()["kernels"].push_back({{"kernel", std::string(plan.kernels[c.kernel].name)},
                                          {"launches", c.launches},
                                          {"present", c.present},
                                          {"alone_us", c.alone},
                                          {"present_run_us", c.present_run},
                                          {"best", c.best},
                                          {"best_run_us", best},
                                          {"run_us", c.runs},
                                          {"wrong", c.wrong}});
    }
    out_.Print(section);
    out_.Line("a run: %.1f µs as the plan is, %.1f µs with all best choices", present_run_, best_run_);
    out_.object()["run_us"] = {{"present", present_run_}, {"best", best_run_}};
  }

  std::vector<std::string> plans_;
  std::string output_;
  bool merge_ = false, merging_ = false;
  int64_t runs_ = 50, first_integer_ = 0;
  double present_run_ = 0, best_run_ = 0;
  LoadOptions load_;
  OpRegistry registry_;
  CommandOutput out_;
  Progress progress_{&out_};
};

}  // namespace

std::unique_ptr<Command> MakeTuneCommand() { return std::make_unique<TuneCommand>(); }

}  // namespace rondo::tools
