#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "drivers/cuda/cuda_driver.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/kernel_check.h"
#include "tools/rondo/kernel_timer.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/plan_report.h"
#include "tools/rondo/profile.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

// A choice replaces the present one if it takes less than this of its time: medians of one kernel differ by a
// percent or so from one measurement to the next.
constexpr double kGain = 0.98;

bool SameImage(const KernelImage& a, const KernelImage& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == ImageKind::kLibraryProduct) return a.product->algorithm == b.product->algorithm;
  return a.code == b.code && a.entry == b.entry && a.grid == b.grid;
}

// One kernel that has other ways to be computed.
struct Candidate {
  uint32_t kernel = 0, launches = 0;
  std::string present;  // the name of the choice that the plan runs
  double present_time = 0;
  std::vector<const KernelAlternative*> others;
  std::map<std::string, double> times;  // microseconds, the present one's too
  std::vector<std::string> wrong;       // choices whose results are wrong
  std::string best;
};

// The plan with the images of some kernels exchanged. Not movable: the plan points into it.
struct Exchanged {
  explicit Exchanged(const PlanData& of) : plan(of), module(of.modules[0]) {
    images.assign(module.images.begin(), module.images.end());
  }
  Exchanged(const Exchanged&) = delete;
  void Finish() {
    module.images = Span<const KernelImage>(images);
    plan.modules = Span<const CodeModule>(&module, 1);
  }
  PlanData plan;
  CodeModule module;
  std::vector<KernelImage> images;
  std::map<uint32_t, std::string> choices;  // of the kernels exchanged
};

std::vector<Candidate> CandidatesOf(const PlanData& plan) {
  std::map<uint32_t, Candidate> found;
  const CodeModule& module = plan.modules[0];
  for (const KernelAlternative& alternative : module.alternatives) {
    Candidate& candidate = found[alternative.kernel];
    candidate.kernel = alternative.kernel;
    if (SameImage(alternative.image, module.images[alternative.kernel])) {
      candidate.present = alternative.choice;
    } else {
      candidate.others.push_back(&alternative);
    }
  }
  std::vector<Candidate> candidates;
  for (auto& [kernel, candidate] : found) {
    for (const Program& program : plan.programs) {
      for (const Step& step : program.steps)
        candidate.launches += step.kind == StepKind::kLaunch && step.kernel == kernel;
    }
    // What the plan runs may be a library's, or unnamed: it is measured, but cannot be asked for.
    if (candidate.launches > 0 && !candidate.others.empty()) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

// As many plans as the kernel with most alternatives has: in the n-th, each kernel has its n-th.
std::vector<std::unique_ptr<Exchanged>> ExchangedPlans(const PlanData& plan,
                                                       const std::vector<Candidate>& candidates) {
  std::vector<std::unique_ptr<Exchanged>> plans;
  for (const Candidate& candidate : candidates) {
    for (size_t i = 0; i < candidate.others.size(); ++i) {
      if (i == plans.size()) plans.push_back(std::make_unique<Exchanged>(plan));
      plans[i]->images[candidate.kernel] = candidate.others[i]->image;
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
    options.Positional("PLAN", &plans_, 1, 1, "the plan file, compiled with --alternatives")
        .Text("-o,--output", &output_, "the profile to write", "F.json", true)
        .Flag("--merge", &merge_, "keep what the profile already says of other kernels")
        .Integer("--runs", &runs_, 3, 10000, "replays of 64 launches, of which the median counts (30)")
        .Integer("--first-integer", &first_integer_, 0, INT32_MAX,
                 "integer inputs hold this number and those after it: positions (0)")
        .Text("--library-path", &load_.library_path,
              "folders (a:b) in which vendor libraries are looked for first", "DIRS");
  }

  int Run() override {
    TuningProfile profile;
    std::error_code ignored;
    if (merge_ && std::filesystem::exists(output_, ignored)) {
      Result<TuningProfile> before = ReadProfile(output_);
      if (!before.ok()) return Fail("tune", before.status().At("--merge"));
      profile = before.Take();
    }
    Result<Plan> plan = Plan::Open(plans_[0].c_str());
    if (!plan.ok()) return Fail("tune", plan.status());
    if (Status status = Tune(plan->data(), &profile); !status.ok()) return Fail("tune", status);
    if (Status status = WriteProfile(profile, output_); !status.ok()) return Fail("tune", status);
    std::printf("wrote %s: %zu kernels on %s, %s\n", output_.c_str(), profile.kernels.size(),
                profile.gpu.c_str(), profile.architecture.c_str());
    return 0;
  }

 private:
  Status Tune(const PlanData& plan, TuningProfile* profile) {
    if (plan.modules.empty())
      return Status::Error(Code::kInvalidArgument,
                           "%s holds no machine code: compile it with --target cuda:sm_90a --alternatives",
                           plans_[0].c_str());
    std::vector<Candidate> candidates = CandidatesOf(plan);
    if (candidates.empty())
      return Status::Error(Code::kInvalidArgument,
                           "%s holds no alternatives to measure: compile it with --alternatives",
                           plans_[0].c_str());
    RONDO_ASSIGN_OR_RETURN(DriverHandle driver, OpenDriver(plan, load_, {}, registry_));
    RONDO_ASSIGN_OR_RETURN(Device * device, driver->Open(0));
    TuningProfile now;
    now.gpu = CudaDeviceName(device);
    now.architecture = std::string(plan.modules[0].architecture);
    now.driver = driver->Info().driver_version;
    if (!profile->kernels.empty() && (profile->gpu != now.gpu || profile->architecture != now.architecture)) {
      return Status::Error(Code::kInvalidArgument, "--merge: %s is of %s, %s, but this is %s, %s",
                           output_.c_str(), profile->gpu.c_str(), profile->architecture.c_str(),
                           now.gpu.c_str(), now.architecture.c_str());
    }
    const std::vector<std::unique_ptr<Exchanged>> plans = ExchangedPlans(plan, candidates);
    RONDO_RETURN_IF_ERROR(DropWhatIsNotThere(plan, device, plans));
    RONDO_RETURN_IF_ERROR(Check(plan, driver.get(), plans, &candidates));
    RONDO_RETURN_IF_ERROR(Measure(plan, device, plans, &candidates));
    now.kernels = std::move(profile->kernels);
    for (Candidate& candidate : candidates) Choose(plan, &candidate, &now);
    *profile = std::move(now);
    PrintTable(plan, candidates);
    return Status::Ok();
  }

  // A library may lack an algorithm that the compiler thought of: such alternatives are left out.
  static Status DropWhatIsNotThere(const PlanData& plan, Device* device,
                                   const std::vector<std::unique_ptr<Exchanged>>& plans) {
    for (const auto& exchanged : plans) {
      Result<Module*> module = device->LoadModule(exchanged->plan);
      if (!module.ok()) {
        std::fprintf(stderr, "rondo tune: left out: %s\n", module.status().message());
        for (size_t k = 0; k < exchanged->images.size(); ++k) {
          if (exchanged->images[k].kind != ImageKind::kLibraryProduct) continue;
          exchanged->images[k] = plan.modules[0].images[k];
          exchanged->choices.erase(static_cast<uint32_t>(k));
        }
        RONDO_ASSIGN_OR_RETURN(module, device->LoadModule(exchanged->plan));
      }
      device->DestroyModule(*module);
    }
    return Status::Ok();
  }

  // Compares the results of every alternative with those of the image that the plan runs.
  Status Check(const PlanData& plan, Driver* driver, const std::vector<std::unique_ptr<Exchanged>>& plans,
               std::vector<Candidate>* candidates) {
    for (const auto& exchanged : plans) {
      KernelCheckOptions options;
      options.believed_plan = &plan;
      options.wanted = [&](uint32_t kernel) { return exchanged->choices.count(kernel) > 0; };
      options.progress = [&](const KernelVerdict& verdict) {
        const std::string name(plan.kernels[verdict.kernel].name),
            choice = exchanged->choices[verdict.kernel];
        Progress("checking " + name + ", " + choice);
        if (verdict.failures.empty()) return;
        for (Candidate& candidate : *candidates) {
          if (candidate.kernel == verdict.kernel) candidate.wrong.push_back(choice);
        }
        Progress("");
        std::fprintf(stderr, "rondo tune: %s is never chosen: %s\n", choice.c_str(),
                     verdict.failures[0].c_str());
      };
      RONDO_RETURN_IF_ERROR(CheckKernels(exchanged->plan, driver, driver, options).status());
    }
    return Status::Ok();
  }

  // All choices of a kernel one after another, so that what else changes with time changes little.
  Status Measure(const PlanData& plan, Device* device, const std::vector<std::unique_ptr<Exchanged>>& plans,
                 std::vector<Candidate>* candidates) {
    KernelTimerOptions options;
    options.first_integer = first_integer_;
    options.replays = runs_;
    options.rotate = true;
    KernelTimer timer(plan, device, options);
    RONDO_RETURN_IF_ERROR(timer.Open());
    RONDO_ASSIGN_OR_RETURN(const size_t present, timer.Load(plan));
    std::vector<size_t> images;
    for (const auto& exchanged : plans) {
      RONDO_ASSIGN_OR_RETURN(const size_t loaded, timer.Load(exchanged->plan));
      images.push_back(loaded);
    }
    for (Candidate& candidate : *candidates) {
      Progress("measuring " + std::string(plan.kernels[candidate.kernel].name));
      RONDO_ASSIGN_OR_RETURN(candidate.present_time, timer.Time(candidate.kernel, present));
      if (!candidate.present.empty()) candidate.times[candidate.present] = candidate.present_time;
      for (size_t i = 0; i < candidate.others.size(); ++i) {
        if (plans[i]->choices.count(candidate.kernel) == 0) continue;
        RONDO_ASSIGN_OR_RETURN(candidate.times[std::string(candidate.others[i]->choice)],
                               timer.Time(candidate.kernel, images[i]));
      }
    }
    Progress("");
    return Status::Ok();
  }

  static void Choose(const PlanData& plan, Candidate* candidate, TuningProfile* profile) {
    candidate->best = candidate->present;
    double best_time = candidate->present_time * kGain;
    for (const auto& [choice, time] : candidate->times) {
      const bool wrong = std::count(candidate->wrong.begin(), candidate->wrong.end(), choice) > 0;
      if (wrong || time >= best_time) continue;
      candidate->best = choice;
      best_time = time;
    }
    if (candidate->best.empty()) return;
    ProfiledKernel entry;
    entry.kernel = std::string(plan.kernels[candidate->kernel].name);
    entry.source = SourceOf(plan, candidate->kernel);
    entry.choice = candidate->best;
    entry.microseconds = candidate->times;
    for (const std::string& choice : candidate->wrong) entry.microseconds.erase(choice);
    profile->kernels[KernelDigest(plan.kernels[candidate->kernel])] = std::move(entry);
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

  static void PrintTable(const PlanData& plan, const std::vector<Candidate>& candidates) {
    Section section;
    section.title = "Kernels with alternatives, microseconds a launch";
    section.table.head = {"kernel", "launches", "present",  "time",  "best",
                          "time ",  "gain %",   "measured", "source"};
    double before = 0, after = 0;
    for (const Candidate& c : candidates) {
      const double best = c.best == c.present ? c.present_time : c.times.at(c.best);
      before += c.launches * c.present_time;
      after += c.launches * best;
      section.table.rows.push_back({std::string(plan.kernels[c.kernel].name), std::to_string(c.launches),
                                    c.present, Printf("%.2f", c.present_time),
                                    c.best == c.present ? "the present" : c.best, Printf("%.2f", best),
                                    Printf("%.1f", 100 * (1 - best / c.present_time)),
                                    std::to_string(c.times.size()), SourceOf(plan, c.kernel).substr(0, 40)});
    }
    PrintText({"", {section}}, stdout);
    std::printf("all launches of these kernels: %.1f µs now, %.1f µs with the best choices\n", before, after);
  }

  void Progress(const std::string& what) const {
    if (isatty(STDERR_FILENO) == 0) return;
    std::fprintf(stderr, "\r\033[K%s%s", what.c_str(), what.empty() ? "" : " ...");
  }

  std::vector<std::string> plans_;
  std::string output_;
  bool merge_ = false;
  int64_t runs_ = 30, first_integer_ = 0;
  LoadOptions load_;
  OpRegistry registry_;
};

}  // namespace

std::unique_ptr<Command> MakeTuneCommand() { return std::make_unique<TuneCommand>(); }

}  // namespace rondo::tools
