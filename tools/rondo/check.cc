#include <algorithm>

#include "core/arena.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/reader.h"
#include "formats/plan/verifier.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/kernel_check.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/plan_report.h"
#include "tools/rondo/report.h"

namespace rondo::tools {
namespace {

// What was proven, counted: how many things each rule was shown for.
struct Counts {
  uint64_t steps = 0, bindings = 0, operands = 0, lifetimes = 0, pairs = 0, taken_over = 0, sync_points = 0;
};

Counts CountOf(const PlanData& plan, const CheckReport& report) {
  Counts counts;
  for (const Kernel& kernel : plan.kernels) {
    for (const Part& part : kernel.parts) counts.operands += part.operands.size();
  }
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    counts.steps += plan.programs[p].steps.size();
    counts.sync_points += plan.programs[p].sync_points.size();
    for (const Step& step : plan.programs[p].steps) counts.bindings += step.bindings.size();
    uint64_t in_arena = 0;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      const Buffer& buffer = plan.buffers[b];
      if (buffer.program == p && LivesInArena(buffer.kind) &&
          report.lifetimes[b].first <= report.lifetimes[b].last) {
        ++in_arena;
      }
    }
    counts.pairs += in_arena * (in_arena > 0 ? in_arena - 1 : 0) / 2;
    counts.lifetimes += in_arena;
  }
  for (const Buffer& buffer : plan.buffers) counts.taken_over += buffer.aliases != kNone;
  return counts;
}

void PrintProof(const PlanFile& file, const CheckReport& report) {
  const PlanData& plan = file.data;
  const Counts counts = CountOf(plan, report);
  const auto line = [](uint64_t count, const char* what) {
    std::printf("  %10llu  %s\n", static_cast<unsigned long long>(count), what);
  };
  line(counts.operands, "operands of kernels stay inside what is bound to them");
  line(counts.bindings, "bindings of steps lie inside their buffers, aligned");
  line(counts.lifetimes, "lifetimes equal those derived from the contracts' reads and writes");
  line(counts.pairs, "pairs of buffers never hold one byte at once");
  line(counts.taken_over, "buffers take over another's memory in place, after its last reader");
  line(counts.steps, "steps read only what was written before them");
  line(counts.sync_points, "collectives are started in one order on all their devices");
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const Program& program = plan.programs[p];
    const ProgramMemory& memory = report.programs[p];
    std::printf("program %s: arena %s\n", std::string(program.name).c_str(),
                ArenaText(program.arena_bytes, program.arena_lower_bound).c_str());
    std::printf("  derived again, alignment aside: %llu bytes, at most %llu alive at once (step %u)\n",
                static_cast<unsigned long long>(memory.arena_bytes),
                static_cast<unsigned long long>(memory.arena_lower_bound), memory.fullest_step);
  }
}

class CheckCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    load_.driver = "cuda";
    options.Positional("PLAN", &plans_, 1, 1, "the plan file")
        .Texts("--ops", &ops_, "compare the plan's custom ops with this library, too", "LIB.so")
        .Flag("--kernels", &kernels_,
              "also run each kernel alone on the GPU and compare with the host driver")
        .Text("--kernel", &kernel_check_.only, "with --kernels: only the kernel of this name", "NAME")
        .Integer("--seed", &seed_, 0, INT64_MAX, "with --kernels: of the random inputs (1)")
        .Text("--driver", &load_.driver, "with --kernels: what to check: cuda, or host against itself",
              "NAME")
        .Text("--library-path", &load_.library_path,
              "with --kernels: folders (a:b) in which vendor libraries are looked for first", "DIRS")
        .Flag("--ignore-hashes", &ignore_hashes_, "go on when a section's hash is wrong");
  }

  int Run() override {
    Arena arena;
    ReadOptions options;
    options.ignore_hashes = ignore_hashes_;
    Result<PlanFile> plan = OpenPlanFile(plans_[0].c_str(), options, arena);
    if (!plan.ok()) return Fail("check", plan.status());
    if (!ignore_hashes_) {
      if (Status status = plan->weights.CheckHash(); !status.ok()) return Fail("check", status.At("weights"));
    }
    if (Status status = VerifyPlan(plan->data); !status.ok()) return Fail("check", status);
    CheckReport report;
    if (Status status = CheckPlan(plan->data, DefaultHostAllocator(), arena, &report); !status.ok()) {
      return Fail("check", status);
    }
    if (Status status = CheckCalls(plan->data); !status.ok()) return Fail("check", status);
    std::printf("%s: verified and proven\n", plans_[0].c_str());
    PrintProof(*plan, report);
    if (!ops_.empty()) {
      std::printf("  %10zu  custom ops are what their libraries say\n", plan->data.custom_ops.size());
    }
    return kernels_ ? CheckKernelsOf(plan->data) : 0;
  }

 private:
  Status CheckCalls(const PlanData& plan) {
    if (ops_.empty()) return Status::Ok();
    RONDO_RETURN_IF_ERROR(LoadOps(ops_, &registry_));
    for (uint32_t i = 0; i < plan.custom_ops.size(); ++i)
      RONDO_RETURN_IF_ERROR(CheckCall(&registry_, plan, i));
    return Status::Ok();
  }

  int CheckKernelsOf(const PlanData& plan) {
    Result<DriverHandle> tested = OpenDriver(plan, load_, {}, registry_);
    if (!tested.ok()) return Fail("check", tested.status().At("--kernels"));
    LoadOptions host;
    Result<DriverHandle> believed = OpenDriver(plan, host, {}, registry_);
    if (!believed.ok()) return Fail("check", believed.status());
    std::printf("each kernel alone on driver %s, against the host driver, seed %lld\n", load_.driver.c_str(),
                static_cast<long long>(seed_));
    kernel_check_.seed = static_cast<uint64_t>(seed_);
    kernel_check_.progress = [&plan](const KernelVerdict& verdict) { Say(plan, verdict); };
    Result<std::vector<KernelVerdict>> verdicts =
        CheckKernels(plan, tested->get(), believed->get(), kernel_check_);
    if (!verdicts.ok()) return Fail("check", verdicts.status());
    const auto failed = static_cast<size_t>(
        std::count_if(verdicts->begin(), verdicts->end(),
                      [](const KernelVerdict& verdict) { return !verdict.failures.empty(); }));
    std::printf("%zu kernels agree, %zu do not\n", verdicts->size() - failed, failed);
    return failed == 0 ? 0 : 1;
  }

  static void Say(const PlanData& plan, const KernelVerdict& verdict) {
    const Kernel& kernel = plan.kernels[verdict.kernel];
    std::printf("  %-4s %-24s %-16s %10llu elements in %9s, greatest error %.3g (at most %.3g)\n",
                verdict.failures.empty() ? "ok" : "FAIL", std::string(kernel.name).c_str(),
                std::string(kernel.label).c_str(), static_cast<unsigned long long>(verdict.elements),
                BytesText(verdict.bytes).c_str(), verdict.greatest_error, verdict.tolerance);
    std::fflush(stdout);
    for (const std::string& failure : verdict.failures)
      std::fprintf(stderr, "rondo check: %s\n", failure.c_str());
  }

  std::vector<std::string> plans_, ops_;
  bool ignore_hashes_ = false, kernels_ = false;
  int64_t seed_ = 1;
  KernelCheckOptions kernel_check_;
  LoadOptions load_;
  OpRegistry registry_;
};

}  // namespace

std::unique_ptr<Command> MakeCheckCommand() { return std::make_unique<CheckCommand>(); }

}  // namespace rondo::tools
