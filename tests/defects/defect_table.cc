// defect_table [--each N] [--seed S] [--only KIND] [--list] PLAN...: plants N defects of each kind in each
// plan and tells who finds them.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "formats/plan/check/checker.h"
#include "formats/plan/decode.h"
#include "formats/plan/encode.h"
#include "formats/plan/verifier.h"
#include "runtime/plan.h"
#include "tests/defects/defect_kinds.h"
#include "tests/defects/effect.h"

namespace rondo::defects {
namespace {

constexpr double kMostPoints = 1 << 27;  // of a run: larger ones take too long, again and again
constexpr unsigned kMostSeconds = 120;   // of one defect

struct Counts {
  uint64_t planted = 0, verifier = 0, checker = 0, driver = 0;
  uint64_t same = 0;    // accepted, and computes what it did
  uint64_t other = 0;   // accepted, and computes something else, always the same
  uint64_t missed = 0;  // accepted, and what it computes depends on poison or order
  uint64_t large = 0;   // accepted, not run
};

char now[512];  // what is at work, for the alarm

void OnAlarm(int) {
  const char text[] = "defect_table: no end after 120 s: ";
  (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
  (void)!write(STDERR_FILENO, now, std::strlen(now));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(1);
}

double PointsOf(const PlanData& plan) {
  double sum = 0;
  for (const Program& program : plan.programs) {
    for (const Step& step : program.steps) {
      if (step.kind != StepKind::kLaunch) continue;
      for (const Part& part : plan.kernels[step.kernel].parts) {
        double points = 1;
        for (int64_t extent : part.loops) points *= static_cast<double>(extent);
        sum += points;
      }
    }
  }
  return sum;
}

// One plan as it was compiled.
struct Sound {
  std::string path;
  Plan plan;
  std::vector<uint8_t> flatbuffer;
  std::vector<Results> results;
};

Result<Sound> OpenSound(const std::string& path, EffectRunner** runner) {
  Sound sound;
  sound.path = path;
  RONDO_ASSIGN_OR_RETURN(sound.plan, Plan::Open(path.c_str()));
  RONDO_RETURN_IF_ERROR(EncodePlan(sound.plan.data(), &sound.flatbuffer));
  *runner = new EffectRunner(static_cast<uint32_t>(sound.plan.data().requirements.devices.size()));
  RONDO_ASSIGN_OR_RETURN(sound.results, (*runner)->Run(sound.plan));
  for (const Results& results : sound.results) {
    if (results == sound.results[0]) continue;
    return Status::Error(Code::kInternal, "%s, undamaged, does not always compute the same", path.c_str());
  }
  return sound;
}

// Who finds a damaged plan.
void Judge(const Sound& sound, const PlanData& plan, EffectRunner* runner, Counts* counts, bool* missed) {
  *missed = false;
  ++counts->planted;
  if (!VerifyPlan(plan).ok()) return static_cast<void>(++counts->verifier);
  if (!CheckPlan(plan).ok()) return static_cast<void>(++counts->checker);
  if (PointsOf(plan) > kMostPoints) return static_cast<void>(++counts->large);
  Result<Plan> opened = Plan::FromData(plan, sound.plan.weights());
  if (!opened.ok()) return static_cast<void>(++counts->driver);
  Result<std::vector<Results>> results = runner->Run(*opened);
  if (!results.ok()) return static_cast<void>(++counts->driver);
  for (const Results& one : *results) {
    if (one == (*results)[0]) continue;
    *missed = true;
    return static_cast<void>(++counts->missed);
  }
  ++((*results)[0] == sound.results[0] ? counts->same : counts->other);
}

struct Options {
  std::vector<std::string> plans;
  uint64_t each = 20, seed = 1;
  std::string only;
  bool list = false;
};

Status Plant(const Options& options, const std::string& path, std::vector<Counts>* table) {
  EffectRunner* made = nullptr;
  Result<Sound> sound = OpenSound(path, &made);
  const std::unique_ptr<EffectRunner> runner(made);
  if (!sound.ok()) return sound.status();
  const Span<const DefectKind> kinds = DefectKinds();
  for (size_t k = 0; k < kinds.size(); ++k) {
    if (!options.only.empty() && std::string(kinds[k].name).find(options.only) == std::string::npos) continue;
    for (uint64_t i = 0; i < options.each; ++i) {
      std::snprintf(now, sizeof(now), "%s: %s, number %llu of seed %llu", path.c_str(), kinds[k].name,
                    static_cast<unsigned long long>(i), static_cast<unsigned long long>(options.seed));
      Arena arena;
      PlanData plan;
      RONDO_RETURN_IF_ERROR(DecodePlan(sound->flatbuffer, {}, arena, &plan));
      fuzz::Random random(options.seed * 1000003 + k * 1009 + i);
      Patient patient{plan, arena, random};
      if (!kinds[k].plant(patient)) continue;
      bool missed = false;
      alarm(kMostSeconds);
      Judge(*sound, plan, runner.get(), &(*table)[k], &missed);
      alarm(0);
      if (missed) std::printf("MISSED %s\n", now);
    }
  }
  return Status::Ok();
}

int Print(const std::vector<Counts>& table) {
  std::printf("%-46s %8s %9s %8s %7s %6s %6s %6s %7s\n", "defect", "planted", "verifier", "checker", "driver",
              "same", "other", "large", "MISSED");
  Counts sum;
  const auto row = [](const char* name, const Counts& c) {
    const uint64_t numbers[] = {c.planted, c.verifier, c.checker, c.driver,
                                c.same,    c.other,    c.large,   c.missed};
    std::printf("%-46s %8llu %9llu %8llu %7llu %6llu %6llu %6llu %7llu\n", name,
                (unsigned long long)numbers[0], (unsigned long long)numbers[1],
                (unsigned long long)numbers[2], (unsigned long long)numbers[3],
                (unsigned long long)numbers[4], (unsigned long long)numbers[5],
                (unsigned long long)numbers[6], (unsigned long long)numbers[7]);
  };
  for (size_t k = 0; k < table.size(); ++k) {
    const Counts& c = table[k];
    if (c.planted > 0) row(DefectKinds()[k].name, c);
    sum.planted += c.planted, sum.verifier += c.verifier, sum.checker += c.checker, sum.driver += c.driver;
    sum.same += c.same, sum.other += c.other, sum.large += c.large, sum.missed += c.missed;
  }
  row("all", sum);
  return sum.missed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rondo::defects

int main(int argc, char** argv) {
  using namespace rondo::defects;
  Options options;
  CLI::App app("Plants defects in plans and tells who finds them.", "defect_table");
  app.add_option("PLAN", options.plans, "plan files, compiled for the host");
  app.add_option("--each", options.each, "defects of each kind in each plan (20)");
  app.add_option("--seed", options.seed, "of all choices (1)");
  app.add_option("--only", options.only, "only kinds whose name has this in it");
  app.add_flag("--list", options.list, "only list the kinds");
  CLI11_PARSE(app, argc, argv);
  if (options.list) {
    for (const DefectKind& kind : DefectKinds()) std::printf("%s\n", kind.name);
    return 0;
  }
  if (options.plans.empty()) {
    std::fprintf(stderr, "defect_table: no PLAN was given\n");
    return 2;
  }
  signal(SIGALRM, OnAlarm);
  std::vector<Counts> table(DefectKinds().size());
  for (const std::string& path : options.plans) {
    if (rondo::Status status = Plant(options, path, &table); !status.ok()) {
      std::fprintf(stderr, "defect_table: %s: %s\n", path.c_str(), status.message());
      return 1;
    }
  }
  return Print(table);
}
