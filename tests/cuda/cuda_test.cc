// Code generation for GPUs on a machine that may have none.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/add_modules.h"
#include "compiler/codegen/cuda/compare_binaries.h"
#include "compiler/compile.h"
#include "formats/machine_code/architecture.h"
#include "formats/machine_code/binary_check.h"
#include "formats/plan/verifier.h"
#include "tests/cuda/have_nvrtc.h"
#include "tests/cuda/make_cubin.h"
#include "tests/folders.h"
#include "tests/how_many.h"

namespace rondo {
namespace {

std::string Data(const std::string& name) { return SourceFolder() + "/tests/data/" + name; }

CompileOptions Options(const std::string& model, const std::string& target) {
  CompileOptions options;
  options.models = {{"main", Data(model)}};
  options.targets = *ParseTargets(target);
  return options;
}

const char* const kModels[] = {"pycoder/decode.onnx", "pycoder/prefill64.onnx", "fixtures/resnet/model.onnx",
                               "fixtures/bert_ts17/model.onnx", "fixtures/unet_op23/model.onnx"};

TEST(CudaCode, EveryKernelHasABinary) {
  if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  int number = 0;
  for (const char* model : kModels) {
    if (!IsTaken(number++, HowMany("RONDO_COMPILED_EACH", 2))) continue;
    Result<CompiledPlan> compiled = CompileToMemory(Options(model, "cuda:sm_90a"));
    ASSERT_TRUE(compiled.ok()) << model << ": " << compiled.status().message();
    ASSERT_EQ(compiled->plan.modules.size(), 1u);
    const CodeModule& module = compiled->plan.modules[0];
    EXPECT_EQ(module.architecture, "sm_90a");
    EXPECT_EQ(module.binaries.size(), compiled->plan.kernels.size());
    for (Span<const uint8_t> code : module.codes)
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(code.data()) + 1, 3), "ELF");
  }
}

TEST(CudaCode, TextIsTheSameEachTime) {
  for (const char* model : kModels) {
    Result<CompiledPlan> a = CompileToMemory(Options(model, "host")),
                         b = CompileToMemory(Options(model, "host"));
    ASSERT_TRUE(a.ok() && b.ok());
    Result<std::string> first = CudaText(a->plan), second = CudaText(b->plan);
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_EQ(*first, *second);
  }
}

TEST(CudaCode, AModuleWithoutABinaryForEveryKernelIsRefused) {
  Result<CompiledPlan> compiled = CompileToMemory(Options("pycoder/decode.onnx", "host"));
  ASSERT_TRUE(compiled.ok());
  PlanData plan = compiled->plan;
  std::vector<KernelBinary> binaries(plan.kernels.size(), {"entry", 1});
  std::vector<uint8_t> code = {1, 2, 3};
  CodeModule module;
  module.architecture = "sm_90a";
  const Span<const uint8_t> codes[] = {code};
  module.codes = codes;
  module.binaries = binaries;
  plan.modules = Span<const CodeModule>(&module, 1);
  EXPECT_TRUE(VerifyPlan(plan).ok()) << VerifyPlan(plan).message();
  binaries[0].grid = 0;
  EXPECT_EQ(VerifyPlan(plan).code(), Code::kCorrupt);
  binaries[0].grid = 1;
  binaries[0].entry = "";
  EXPECT_EQ(VerifyPlan(plan).code(), Code::kCorrupt);
  binaries[0].entry = "entry";
  module.binaries = Span<const KernelBinary>(binaries.data(), binaries.size() - 1);
  EXPECT_EQ(VerifyPlan(plan).code(), Code::kCorrupt);
  module.binaries = binaries;
  module.block = 2000;
  EXPECT_EQ(VerifyPlan(plan).code(), Code::kCorrupt);
}

TEST(CudaCode, AnUnknownTargetIsRefusedNamingTheKnownOnes) {
  const Result<Targets> targets = ParseTargets("cuda:sm_11");
  ASSERT_FALSE(targets.ok());
  EXPECT_NE(std::string(targets.status().message()).find("cuda:sm_90a"), std::string::npos);
}

TEST(CudaCode, TargetsAreNamedOnceAndKnown) {
  for (const char* target :
       {"cuda:sm_80,cuda:sm_80", "cuda:sm_80,", "", "cuda:", "host,host", "cuda:sm_90", "cuda:sm_80, host"})
    EXPECT_FALSE(ParseTargets(target).ok()) << target;
}

TEST(CudaCode, OnePlanHasCodeForSeveralGpus) {
  if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  CompileOptions options = Options("pycoder/decode.onnx", "host");
  options.precision = Precision::kF16;
  for (const GpuTarget& target : GpuTargets()) options.targets.all.push_back({&target});
  Result<CompiledPlan> compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  const PlanData& plan = compiled->plan;
  EXPECT_EQ(plan.requirements.target, options.targets.text());
  ASSERT_EQ(plan.modules.size(), GpuTargets().size());
  for (size_t m = 0; m < plan.modules.size(); ++m) {
    EXPECT_EQ(plan.modules[m].architecture, GpuTargets()[m].architecture);
    EXPECT_LE(MostShared(plan.modules[m]), GpuTargets()[m].shared);
    EXPECT_NE(plan.modules[m].compiler.find("nvrtc"), std::string_view::npos);
    for (const KernelBinary& binary : plan.modules[m].binaries)
      EXPECT_EQ(binary.waits, TargetOf(GpuTargets()[m].architecture).dependent_launch());
    const Status status = CheckBinaries(plan, plan.modules[m], true);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  // The first named GPU decides how kernels are fused: a compilation for it alone gives the same kernels.
  Result<CompiledPlan> alone = CompileToMemory([&] {
    CompileOptions one = options;
    one.targets.all = {{&GpuTargets()[0]}};
    return one;
  }());
  ASSERT_TRUE(alone.ok());
  ASSERT_EQ(alone->plan.kernels.size(), plan.kernels.size());
  for (size_t k = 0; k < plan.kernels.size(); ++k)
    EXPECT_EQ(alone->plan.modules[0].binaries[k].digest, plan.modules[0].binaries[k].digest);
}

// `check --binaries` finds changed code even if every digest fits.
TEST(CudaCode, IsWhatItsContractsCompileTo) {
  if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  CompileOptions options = Options("pycoder/decode.onnx", "cuda:sm_90a");
  options.precision = Precision::kF16;
  options.alternatives = 1;
  Result<CompiledPlan> compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  PlanData plan = compiled->plan;
  Result<BinaryComparison> same = CompareBinaries(plan, plan.modules[0], "");
  ASSERT_TRUE(same.ok()) << same.status().message();
  EXPECT_TRUE(same->failures.empty()) << same->failures[0];
  EXPECT_EQ(same->binaries, plan.modules[0].binaries.size() + plan.modules[0].alternatives.size());

  Arena arena;
  CodeModule module = plan.modules[0];
  std::vector<KernelBinary> binaries(module.binaries.begin(), module.binaries.end());
  std::vector<std::vector<uint8_t>> codes;
  for (Span<const uint8_t> code : module.codes) codes.emplace_back(code.begin(), code.end());
  binaries[0].grid *= 2;
  std::vector<uint8_t>& code = codes[binaries[1].code];
  code[code.size() / 2] ^= 4;
  const std::vector<Span<const uint8_t>> spans(codes.begin(), codes.end());
  module.binaries = binaries;
  module.codes = spans;
  plan.modules = Span<const CodeModule>(&module, 1);
  EXPECT_EQ(CheckBinaries(plan, module, true).code(), Code::kCorrupt);
  SealBinaries(&plan, arena);
  Result<BinaryComparison> altered = CompareBinaries(plan, plan.modules[0], "");
  ASSERT_TRUE(altered.ok()) << altered.status().message();
  ASSERT_GE(altered->failures.size(), 2u);
  EXPECT_NE(altered->failures[0].find("blocks"), std::string::npos) << altered->failures[0];
  EXPECT_NE(altered->failures[1].find("is not the"), std::string::npos) << altered->failures[1];
}

}  // namespace
}  // namespace rondo
