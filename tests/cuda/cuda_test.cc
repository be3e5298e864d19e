// Code generation for GPUs on a machine that may have none.
#include <gtest/gtest.h>

#include "compiler/codegen/cuda/add_modules.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/compile.h"
#include "drivers/cuda/cuda_driver.h"
#include "formats/plan/verifier.h"
#include "tests/folders.h"

namespace rondo {
namespace {

std::string Data(const std::string& name) { return SourceFolder() + "/tests/data/" + name; }

CompileOptions Options(const std::string& model, const std::string& target) {
  CompileOptions options;
  options.models = {{"main", Data(model)}};
  options.target = target;
  return options;
}

bool HaveNvrtc() {
  Result<std::vector<uint8_t>> code = CompileCuda("extern \"C\" __global__ void k() {}", "sm_90a", "");
  return code.ok() || code.status().code() != Code::kUnsupported;
}

const char* const kModels[] = {"pycoder/decode.onnx", "pycoder/prefill64.onnx", "fixtures/resnet/model.onnx",
                               "fixtures/bert_ts17/model.onnx", "fixtures/unet_op23/model.onnx"};

TEST(CudaCode, EveryKernelHasAnImage) {
  if (!HaveNvrtc()) GTEST_SKIP() << "libnvrtc is not on this machine";
  for (const char* model : kModels) {
    Result<CompiledPlan> compiled = CompileToMemory(Options(model, "cuda:sm_90a"));
    ASSERT_TRUE(compiled.ok()) << model << ": " << compiled.status().message();
    ASSERT_EQ(compiled->plan.modules.size(), 1u);
    const CodeModule& module = compiled->plan.modules[0];
    EXPECT_EQ(module.architecture, "sm_90a");
    EXPECT_EQ(module.images.size(), compiled->plan.kernels.size());
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

TEST(CudaCode, AModuleWithoutAnImageForEveryKernelIsRefused) {
  Result<CompiledPlan> compiled = CompileToMemory(Options("pycoder/decode.onnx", "host"));
  ASSERT_TRUE(compiled.ok());
  PlanData plan = compiled->plan;
  std::vector<KernelImage> images(plan.kernels.size(), {"entry", 1});
  std::vector<uint8_t> code = {1, 2, 3};
  CodeModule module;
  module.architecture = "sm_90a";
  const Span<const uint8_t> codes[] = {code};
  module.codes = codes;
  module.images = images;
  plan.modules = Span<const CodeModule>(&module, 1);
  EXPECT_TRUE(VerifyPlan(plan).ok()) << VerifyPlan(plan).message();
  images[0].grid = 0;
  EXPECT_EQ(VerifyPlan(plan).code(), Code::kCorrupt);
  images[0].grid = 1;
  images[0].entry = "";
  EXPECT_EQ(VerifyPlan(plan).code(), Code::kCorrupt);
  images[0].entry = "entry";
  module.images = Span<const KernelImage>(images.data(), images.size() - 1);
  EXPECT_EQ(VerifyPlan(plan).code(), Code::kCorrupt);
  module.images = images;
  module.block = 2000;
  EXPECT_EQ(VerifyPlan(plan).code(), Code::kCorrupt);
}

TEST(CudaCode, AnUnknownTargetIsRefusedNamingTheKnownOnes) {
  CompileOptions options = Options("pycoder/decode.onnx", "cuda:sm_11");
  Result<CompiledPlan> compiled = CompileToMemory(options);
  ASSERT_FALSE(compiled.ok());
  EXPECT_NE(std::string(compiled.status().message()).find("cuda:sm_90a"), std::string::npos);
}

TEST(CudaDriver, SaysWhatAMachineWithoutAGpuLacks) {
  Result<Driver*> driver = CreateCudaDriver();
  if (driver.ok()) {
    DestroyCudaDriver(*driver);
    GTEST_SKIP() << "this machine has a GPU";
  }
  EXPECT_EQ(driver.status().code(), Code::kUnsupported);
  EXPECT_NE(std::string(driver.status().message()).find("NVIDIA"), std::string::npos)
      << driver.status().message();
}

}  // namespace
}  // namespace rondo
