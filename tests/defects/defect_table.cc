// defect_table [--each N] [--seed S] [--only KIND] [--list] PLAN...: plants N defects of each kind in each
// plan, and counts which parts find them. The lifecycle verifier runs with the checker off.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "formats/plan/check/checker.h"
#include "formats/plan/decode.h"
#include "formats/plan/encode.h"
#include "formats/plan/verifier.h"
#include "runtime/plan.h"
#include "runtime/verify/lifecycle_verifier.h"
#include "runtime/verify/unchecked_plan.h"
#include "tests/defects/defect_kinds.h"
#include "tests/defects/effect.h"

namespace rondo::defects {
namespace {

constexpr double kMostPoints = 1 << 27;   // of a run; larger runs take too long when repeated
constexpr unsigned kMostSeconds = 120;    // for one defect
constexpr uint64_t kMostRunSeconds = 20;  // for one run

struct Counts {
  uint64_t planted = 0, verifier = 0, checker = 0, driver = 0;
  uint64_t same = 0;    // accepted, and computes the same as before
  uint64_t other = 0;   // accepted, and always computes the same other results
  uint64_t missed = 0;  // accepted, and the results depend on poison or order
  uint64_t large = 0;   // accepted, but too large to run
  // With the checker off, the results depend on poison or order; or the checker refuses it and the results
  // differ.
  uint64_t changes = 0;
  uint64_t lifecycle = 0;  // of those, found by the lifecycle verifier
  uint64_t flagged =
      0;  // found by the verifier, but accepted by the checker, and all runs give the same results
};

constexpr double kLeastFound =
    0.95;  // share of result-changing defects that the lifecycle verifier must find

char now[512];  // what runs now, for the alarm's message

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

// A plan without defects.
struct Sound {
  std::string path;
  Plan plan;
  std::vector<uint8_t> flatbuffer;
  std::vector<Results> results;
};

// The lifecycle verifier's first finding; "" if it has none.
std::string FirstFinding(const Plan& plan, const EffectRunner& runner) {
  VerifyOptions options;
  options.reopenings = 1;
  options.timeout_ns = kMostRunSeconds * 1000000000ull;
  const Result<VerifyReport> report = VerifyLifecycle(plan, runner.driver(), options);
  if (!report.ok()) return report.status().message();
  return report->ok() ? "" : report->findings[0].Text();
}

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
  if (const std::string found = FirstFinding(sound.plan, **runner); !found.empty()) {
    return Status::Error(Code::kInternal, "%s, undamaged, is flagged by the lifecycle verifier: %s",
                         path.c_str(), found.c_str());
  }
  return sound;
}

// Weights that no session can use in place. A session copies them, so an unchecked plan's writes to its
// weights end with the session.
class WeightsCopy {
 public:
  explicit WeightsCopy(Span<const uint8_t> weights) : memory_(weights.size() + kAlignment) {
    uint8_t* odd = memory_.data();
    while (reinterpret_cast<uintptr_t>(odd) % kAlignment != 1) ++odd;
    std::copy(weights.begin(), weights.end(), odd);
    bytes_ = {odd, weights.size()};
  }
  Span<const uint8_t> bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 64;
  std::vector<uint8_t> memory_;
  Span<const uint8_t> bytes_;
};

// Counts which parts find the damaged plan.
void Judge(const Sound& sound, const PlanData& plan, EffectRunner* runner, Counts* counts) {
  ++counts->planted;
  if (!VerifyPlan(plan).ok()) return static_cast<void>(++counts->verifier);
  const bool accepted = CheckPlan(plan).ok();
  if (!accepted) ++counts->checker;
  if (PointsOf(plan) > kMostPoints) return static_cast<void>(counts->large += accepted);
  const WeightsCopy weights(sound.plan.weights());
  Result<Plan> opened = UncheckedPlan::FromData(plan, weights.bytes());
  Result<std::vector<Results>> results = opened.ok() ? runner->Run(*opened) : opened.status();
  if (!results.ok()) return static_cast<void>(counts->driver += accepted);
  bool depends = false;
  for (const Results& one : *results) depends |= !(one == (*results)[0]);
  const bool same = (*results)[0] == sound.results[0], changes = depends || (!accepted && !same);
  if (accepted) ++(depends ? counts->missed : same ? counts->same : counts->other);
  if (accepted && depends) std::printf("MISSED %s\n", now);
  const std::string finding = FirstFinding(*opened, *runner);
  const bool found = !finding.empty();
  counts->changes += changes;
  counts->lifecycle += changes && found;
  if (changes && !found) std::printf("NOT FOUND by the lifecycle verifier: %s\n", now);
  if (!accepted || changes || !found || !(*results)[0].error.empty())
    return;  // a failing run counts as found
  ++counts->flagged;
  std::printf("FLAGGED by the lifecycle verifier: %s: %s\n", now, finding.c_str());
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
      alarm(kMostSeconds);
      Judge(*sound, plan, runner.get(), &(*table)[k]);
      alarm(0);
    }
  }
  return Status::Ok();
}

int Print(const std::vector<Counts>& table) {
  constexpr struct {
    const char* name;
    uint64_t Counts::*count;
  } kColumns[] = {
      {"planted", &Counts::planted},     {"verifier", &Counts::verifier}, {"checker", &Counts::checker},
      {"driver", &Counts::driver},       {"same", &Counts::same},         {"other", &Counts::other},
      {"large", &Counts::large},         {"MISSED", &Counts::missed},     {"changes", &Counts::changes},
      {"lifecycle", &Counts::lifecycle}, {"flagged", &Counts::flagged}};
  std::printf("%-46s", "defect");
  for (const auto& column : kColumns) std::printf(" %9s", column.name);
  const auto row = [&](const char* name, const Counts& counts) {
    std::printf("\n%-46s", name);
    for (const auto& column : kColumns) std::printf(" %9llu", (unsigned long long)(counts.*column.count));
  };
  Counts sum;
  for (size_t k = 0; k < table.size(); ++k) {
    for (const auto& column : kColumns) sum.*column.count += table[k].*column.count;
    if (table[k].planted > 0) row(DefectKinds()[k].name, table[k]);
  }
  row("all", sum);
  const double found =
      sum.changes == 0 ? 1 : static_cast<double>(sum.lifecycle) / static_cast<double>(sum.changes);
  std::printf("\nthe lifecycle verifier, checker off, finds %.2f %% of what changes results\n", 100 * found);
  return sum.missed == 0 && sum.flagged == 0 && found >= kLeastFound ? 0 : 1;
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
