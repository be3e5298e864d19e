#include <algorithm>
#include <nlohmann/json.hpp>

#if RONDO_HAVE_COMPILER
#include "compiler/codegen/cuda/compare_binaries.h"
#endif
#include "core/arena.h"
#include "formats/machine_code/binary_check.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/reader.h"
#include "formats/plan/verifier.h"
#include "tools/rondo/command_output.h"
#include "tools/rondo/commands.h"
#include "tools/rondo/expect_file.h"
#include "tools/rondo/kernel_check.h"
#include "tools/rondo/load_options.h"
#include "tools/rondo/loaded.h"
#include "tools/rondo/plan_texts.h"
#include "tools/rondo/report.h"
#include "tools/rondo/trusted_plan.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

// Counts of what was proven, for each rule.
struct Counts {
  uint64_t steps = 0, bindings = 0, operands = 0, lifetimes = 0, pairs = 0, taken_over = 0, sync_points = 0,
           binaries = 0, conditions = 0;
};

Counts CountOf(const PlanData& plan, const CheckReport& report) {
  Counts counts;
  for (const Kernel& kernel : plan.kernels) {
    for (const Part& part : kernel.parts) {
      counts.operands += part.operands.size();
      counts.conditions += part.when.size();
    }
  }
  for (const CodeModule& module : plan.modules)
    counts.binaries += module.binaries.size() + module.alternatives.size();
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

void PrintProof(const PlanFile& file, const CheckReport& report, CommandOutput* out) {
  const PlanData& plan = file.data;
  const Counts counts = CountOf(plan, report);
  Json& json = out->object();
  const auto line = [&](const char* name, uint64_t count, const char* what) {
    out->Line("  %10llu  %s", static_cast<unsigned long long>(count), what);
    json["counts"][name] = count;
  };
  line("operands", counts.operands, "operands of kernels stay inside what is bound to them");
  line("bindings", counts.bindings, "bindings of steps lie inside their buffers, aligned");
  line("lifetimes", counts.lifetimes, "lifetimes equal those derived from the contracts' reads and writes");
  line("pairs", counts.pairs, "pairs of buffers never hold one byte at once");
  line("taken_over", counts.taken_over, "buffers take over another's memory in place, after its last reader");
  line("steps", counts.steps, "steps read only what was written before them");
  line("sync_points", counts.sync_points, "collectives are started in one order on all their devices");
  if (counts.conditions > 0)
    line("conditions", counts.conditions, "conditions of kernels are written before those look at them");
  if (counts.binaries > 0)
    line("binaries", counts.binaries,
         "binaries are what was compiled, and their code takes what its launch passes");
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const Program& program = plan.programs[p];
    const ProgramMemory& memory = report.programs[p];
    out->Line("program %s: arena %s", std::string(program.name).c_str(),
              ArenaText(program.arena_bytes, program.arena_lower_bound).c_str());
    out->Line("  derived again, alignment aside: %llu bytes, at most %llu alive at once (step %u)",
              static_cast<unsigned long long>(memory.arena_bytes),
              static_cast<unsigned long long>(memory.arena_lower_bound), memory.fullest_step);
    json["programs"].push_back({{"name", std::string(program.name)},
                                {"arena_bytes", program.arena_bytes},
                                {"arena_lower_bound", program.arena_lower_bound},
                                {"derived_arena_bytes", memory.arena_bytes},
                                {"derived_lower_bound", memory.arena_lower_bound},
                                {"fullest_step", memory.fullest_step}});
  }
}

class CheckCommand : public Command {
 public:
  void Declare(OptionSet& options) override {
    DeclarePlan(options, &plans_);
    options.Group("Memory")
        .Text("--expect", &expect_, "also compare the plan's memory with what a JSON file expects of it", "F")
        .Text("--write-expect", &write_expect_, "write such a file, of what holds of this plan now", "F")
        .Group("Kernels")
        .Flag("--kernels", &kernels_,
              "also run each kernel alone on the GPU and compare with the host driver")
        .Text("--kernel", &kernel_check_.only, "with --kernels: only the kernel of this name", "NAME")
        .Integer("--seed", &seed_, 0, INT64_MAX, "with --kernels: the seed of the random inputs (1)")
        .Text("--driver", &load_.driver,
              "with --kernels: what to check: cuda (default), or host against itself", "host|cuda")
        .Flag("--binaries", &binaries_,
              "also write every kernel's CUDA text again, compile it, and compare machine code and launch");
    DeclareLibraryPath(options, &load_.library_path);
    options.Texts("--ops", &ops_, "also compare the plan's custom operators with this library", "LIB.so");
    DeclareKeys(options, &load_.keys);
    DeclareIgnoreHashes(options, &ignore_hashes_);
    out_.Declare(options);
  }

  int Run() override {
    if (!kernels_ && (seed_ >= 0 || !kernel_check_.only.empty() || !load_.driver.empty()))
      return out_.Misuse("check",
                         "--kernel, --seed and --driver say how kernels are compared: give --kernels, too");
    if (load_.driver.empty()) load_.driver = "cuda";
    if (seed_ < 0) seed_ = 1;
    Arena arena;
    ReadOptions options;
    options.ignore_hashes = ignore_hashes_;
    if (Status status = CheckTrusted(plans_[0], load_.keys); !status.ok()) return out_.Fail("check", status);
    Result<PlanFile> plan = OpenPlanFile(plans_[0].c_str(), options, arena);
    if (!plan.ok()) return out_.Fail("check", plan.status());
    if (!ignore_hashes_) {
      if (Status status = plan->weights.CheckHash(); !status.ok())
        return out_.Fail("check", status.At("weights"));
    }
    if (Status status = VerifyPlan(plan->data); !status.ok()) return out_.Fail("check", status);
    CheckReport report;
    if (Status status = CheckPlan(plan->data, DefaultHostAllocator(), arena, &report); !status.ok()) {
      return out_.Fail("check", status);
    }
    for (const CodeModule& module : plan->data.modules) {
      if (Status status = CheckBinaries(plan->data, module, true); !status.ok())
        return out_.Fail("check", status);
    }
    if (Status status = CheckCalls(plan->data); !status.ok()) return out_.Fail("check", status);
    out_.Line("%s: verified and proven", plans_[0].c_str());
    out_.object() = {{"plan", plans_[0]}, {"proven", true}};
    if (!load_.keys.empty()) {
      out_.Line("  signed with a trusted key");
      out_.object()["trusted"] = true;
    }
    PrintProof(*plan, report, &out_);
    if (!ops_.empty()) {
      out_.Line("  %10zu  custom ops are what their libraries say", plan->data.custom_ops.size());
      out_.object()["counts"]["custom_ops"] = plan->data.custom_ops.size();
    }
    if (!write_expect_.empty()) {
      const std::vector<MemoryExpectation> now = ExpectationsOf(plan->data);
      if (Status status = WriteExpectations(now, write_expect_); !status.ok())
        return out_.Fail("check", status);
      out_.Line("  %10zu  expectations written to %s", now.size(), write_expect_.c_str());
    }
    int compared = expect_.empty() ? 0 : CheckExpectations(plan->data);
    if (binaries_) compared = std::max(compared, CompareBinariesOf(plan->data));
    return out_.Finish(kernels_ ? std::max(compared, CheckKernelsOf(plan->data)) : compared);
  }

 private:
  int CheckExpectations(const PlanData& plan) {
    Result<std::vector<MemoryExpectation>> expectations = ReadExpectations(expect_);
    if (!expectations.ok()) return out_.Fail("check", expectations.status());
    std::vector<std::string> failures;
    for (size_t i = 0; i < expectations->size(); ++i) {
      const std::string mismatch = Mismatch(plan, (*expectations)[i]);
      if (mismatch.empty()) continue;
      failures.push_back("expectation " + std::to_string(i + 1) + ": " + mismatch);
      std::fprintf(stderr, "rondo check: %s\n", Printable(failures.back()).c_str());
    }
    out_.Line("  %10zu  of %zu expectations of %s hold", expectations->size() - failures.size(),
              expectations->size(), expect_.c_str());
    if (!failures.empty())
      out_.Line("if the plan is right as it is, write them anew: rondo check %s --write-expect %s",
                plans_[0].c_str(), expect_.c_str());
    out_.object()["expectations"] = {{"checked", expectations->size()}, {"failures", failures}};
    return failures.empty() ? 0 : 1;
  }

  Status CheckCalls(const PlanData& plan) {
    if (ops_.empty()) return Status::Ok();
    RONDO_RETURN_IF_ERROR(LoadOps(ops_, &registry_));
    for (uint32_t i = 0; i < plan.custom_ops.size(); ++i)
      RONDO_RETURN_IF_ERROR(CheckCall(&registry_, plan, i));
    return Status::Ok();
  }

#if RONDO_HAVE_COMPILER
  int CompareBinariesOf(const PlanData& plan) {
    if (plan.modules.empty())
      return out_.Fail("check",
                       Status::Error(Code::kInvalidArgument, "--binaries: the plan has no machine code"));
    bool same = true;
    for (const CodeModule& module : plan.modules) {
      Result<BinaryComparison> compared = CompareBinaries(plan, module, load_.library_path);
      if (!compared.ok()) return out_.Fail("check", compared.status().At("--binaries"));
      out_.Line("%s: %u binaries compiled again from their contracts, %u codes by %s: %zu are not the same",
                std::string(module.architecture).c_str(), compared->binaries, compared->codes,
                Printable(std::string(module.compiler)).c_str(), compared->failures.size());
      out_.object()["binaries"].push_back({{"architecture", std::string(module.architecture)},
                                           {"binaries", compared->binaries},
                                           { "different",
                                             compared->failures }});
      for (const std::string& failure : compared->failures)
        std::fprintf(stderr, "rondo check: %s\n", Printable(failure).c_str());
      same = same && compared->failures.empty();
    }
    return same ? 0 : 1;
  }
#else
  int CompareBinariesOf(const PlanData&) {
    return out_.Fail("check", Status::Error(Code::kUnsupported, "--binaries: this build has no compiler"));
  }
#endif

  int CheckKernelsOf(const PlanData& plan) {
    Result<DriverHandle> tested = OpenDriver(plan, load_, {}, registry_);
    if (!tested.ok()) return out_.Fail("check", tested.status().At("--kernels"));
    LoadOptions host;
    host.driver = "host";
    Result<DriverHandle> believed = OpenDriver(plan, host, {}, registry_);
    if (!believed.ok()) return out_.Fail("check", believed.status());
    out_.Line("each kernel alone on driver %s, against the host driver, seed %lld", load_.driver.c_str(),
              static_cast<long long>(seed_));
    kernel_check_.seed = static_cast<uint64_t>(seed_);
    kernel_check_.progress = [&](const KernelVerdict& verdict) { Say(plan, verdict); };
    Result<std::vector<KernelVerdict>> verdicts =
        CheckKernels(plan, tested->get(), believed->get(), kernel_check_);
    if (!verdicts.ok()) return out_.Fail("check", verdicts.status());
    const auto failed = static_cast<size_t>(
        std::count_if(verdicts->begin(), verdicts->end(),
                      [](const KernelVerdict& verdict) { return !verdict.failures.empty(); }));
    out_.Line("%zu kernels agree, %zu do not", verdicts->size() - failed, failed);
    return failed == 0 ? 0 : 1;
  }

  void Say(const PlanData& plan, const KernelVerdict& verdict) {
    const Kernel& kernel = plan.kernels[verdict.kernel];
    out_.Line("  %-4s %-20s %-14s %9llu elements in %9s, error %.2g (at most %.2g)",
              verdict.failures.empty() ? "ok" : "FAIL", std::string(kernel.name).c_str(),
              std::string(kernel.label).c_str(), static_cast<unsigned long long>(verdict.elements),
              BytesText(verdict.bytes).c_str(), verdict.greatest_error, verdict.tolerance);
    out_.object()["kernels"].push_back({{"kernel", std::string(kernel.name)},
                                        {"label", std::string(kernel.label)},
                                        {"elements", verdict.elements},
                                        {"bytes", verdict.bytes},
                                        {"greatest_error", verdict.greatest_error},
                                        {"tolerance", verdict.tolerance},
                                        {"failures", verdict.failures}});
    for (const std::string& failure : verdict.failures)
      std::fprintf(stderr, "rondo check: %s\n", Printable(failure).c_str());
  }

  std::vector<std::string> plans_, ops_;
  std::string expect_, write_expect_;
  bool ignore_hashes_ = false, kernels_ = false, binaries_ = false;
  int64_t seed_ = -1;  // -1: not given
  KernelCheckOptions kernel_check_;
  LoadOptions load_;
  OpRegistry registry_;
  CommandOutput out_;
};

}  // namespace

std::unique_ptr<Command> MakeCheckCommand() { return std::make_unique<CheckCommand>(); }

}  // namespace rondo::tools
