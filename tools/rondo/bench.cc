#include <algorithm>
#include <chrono>
#include <numeric>

#include "tools/rondo/commands.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/plan_report.h"
#include "tools/rondo/report.h"
#include "tools/rondo/traffic.h"

namespace rondo::tools {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// The value below which `share` of the sorted values lie.
double Quantile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(share * static_cast<double>(sorted.size())))];
}

// Times every step of stepwise runs.
struct StepTimes {
  std::vector<std::vector<double>> seconds;  // by step
  Clock::time_point begin;

  static Status OnStep(void* user, uint32_t, uint32_t step, StepPhase phase) {
    StepTimes* self = static_cast<StepTimes*>(user);
    if (phase == StepPhase::kBefore) {
      self->begin = Clock::now();
    } else {
      self->seconds[step].push_back(Seconds(Clock::now() - self->begin));
    }
    return Status::Ok();
  }
};

class BenchCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    options.Positional("PLAN", &plans_, 1, 1, "the plan file")
        .Text("--program", &program_, "which program of the plan; without it, all", "NAME")
        .Texts("--input", &inputs_, "an input from a .npy or .pb file; others: integers 0, floats synthetic",
               "NAME=FILE")
        .Text("--driver", &load_.driver, "which driver runs it: host or cuda", "NAME")
        .Integer("--threads", &load_.threads, 0, 256, "threads of the host driver; 0: one a core")
        .Integer("--runs", &runs_, 1, 1000000, "runs measured, after a tenth as many that are not")
        .Integer("--top", &top_, 0, 1000000, "how many steps to show, the slowest first; 0: all")
        .Flag("--ignore-hashes", &load_.ignore_hashes, "go on when a section's hash is wrong");
  }

  int Run() override {
    if (const std::string wrong = NotNamedFile(inputs_); !wrong.empty()) return Misuse("bench", wrong);
    Result<std::vector<Tensor>> inputs = ReadNamedTensors(inputs_);
    if (!inputs.ok()) return Fail("bench", inputs.status());
    const auto start = Clock::now();
    auto loaded = LoadedSession::Open(plans_[0], load_);
    if (!loaded.ok()) return Fail("bench", loaded.status());
    std::printf("ready in %.1f ms (open, verify, check, load weights, arm)\n",
                Seconds(Clock::now() - start) * 1e3);

    const uint32_t count = static_cast<uint32_t>((*loaded)->data().programs.size());
    for (uint32_t p = 0; p < count; ++p) {
      if (!program_.empty()) {
        Result<uint32_t> named = (*loaded)->Program(program_);
        if (!named.ok()) return Fail("bench", named.status());
        if (*named != p) continue;
      }
      if (Status status = Measure((*loaded)->session, p, *inputs); !status.ok()) return Fail("bench", status);
    }
    return 0;
  }

 private:
  Status Measure(Session& session, uint32_t program, const std::vector<Tensor>& given) {
    const PlanData& plan = session.plan().data();
    const std::vector<Tensor> tensors = FillInputs(plan, program, given);
    const std::vector<Input> inputs = InputsOf(plan, program, tensors);
    std::vector<double> times;
    for (int64_t i = -(runs_ + 9) / 10; i < runs_; ++i) {
      const auto start = Clock::now();
      RONDO_RETURN_IF_ERROR(session.Run(program, inputs, {}));
      if (i >= 0) times.push_back(Seconds(Clock::now() - start));
    }
    std::sort(times.begin(), times.end());
    const std::string name(plan.programs[program].name);
    std::printf(
        "\nprogram %s: median %.3f ms over %zu runs (least %.3f, 10 %% below %.3f, 90 %% below %.3f, most "
        "%.3f)\n",
        name.c_str(), Quantile(times, 0.5) * 1e3, times.size(), times.front() * 1e3,
        Quantile(times, 0.1) * 1e3, Quantile(times, 0.9) * 1e3, times.back() * 1e3);
    return MeasureSteps(session, program, inputs);
  }

  Status MeasureSteps(Session& session, uint32_t program, const std::vector<Input>& inputs) {
    const PlanData& plan = session.plan().data();
    const Program& of = plan.programs[program];
    StepTimes times;
    times.seconds.resize(of.steps.size());
    RunOptions options;
    options.stepwise = true;
    options.on_step = StepTimes::OnStep;
    options.user = &times;
    const int64_t runs = std::clamp<int64_t>(runs_ / 5, 3, 50);
    for (int64_t i = 0; i < runs; ++i) RONDO_RETURN_IF_ERROR(session.Run(program, inputs, {}, options));

    std::vector<double> medians;
    for (auto& list : times.seconds) {
      std::sort(list.begin(), list.end());
      medians.push_back(list.empty() ? 0 : Quantile(list, 0.5));
    }
    const double sum = std::accumulate(medians.begin(), medians.end(), 0.0);
    std::vector<uint32_t> order(medians.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return medians[a] > medians[b]; });
    if (top_ > 0 && order.size() > static_cast<size_t>(top_)) order.resize(static_cast<size_t>(top_));

    Section section;
    section.title = Printf("%zu steps one at a time: %.3f ms in all (medians of %lld stepwise runs)",
                           medians.size(), sum * 1e3, static_cast<long long>(runs));
    section.table.head = {"step", "µs", "%", "GB/s", "GFLOP/s", "kernel", "label", "source nodes"};
    for (uint32_t s : order) {
      const Step& step = of.steps[s];
      const Traffic traffic = StepTraffic(plan, step);
      const double seconds = std::max(medians[s], 1e-9);
      const bool launch = step.kind == StepKind::kLaunch;
      section.table.rows.push_back(
          {std::to_string(s), Printf("%.1f", medians[s] * 1e6),
           Printf("%.1f", 100 * medians[s] / std::max(sum, 1e-9)),
           Printf("%.1f", static_cast<double>(traffic.read + traffic.written) / seconds * 1e-9),
           traffic.operations == 0 ? ""
                                   : Printf("%.1f", static_cast<double>(traffic.operations) / seconds * 1e-9),
           launch ? std::string(plan.kernels[step.kernel].name) : StepKindText(step.kind),
           launch ? std::string(plan.kernels[step.kernel].label) : "", SourceText(plan, step.source)});
    }
    PrintText({Printf("program %s", std::string(of.name).c_str()), {section}}, stdout);
    return Status::Ok();
  }

  std::vector<std::string> plans_, inputs_;
  std::string program_;
  int64_t runs_ = 50, top_ = 20;
  LoadOptions load_;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace rondo::tools
