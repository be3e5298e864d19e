// The measurement and the fit of tools/bench/device_memory. For a device whose modules and graphs take known
// amounts it finds these amounts, and plans' statements by them are within 1 % or 4 MiB.
#include <gtest/gtest.h>

#include <sstream>

#include "compiler/compile.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/folders.h"
#include "tests/runtime/tiny_plan.h"
#include "tools/bench/device_memory/fit_rates.h"

namespace rondo::bench {
namespace {

constexpr uint64_t kModule = 900 << 10, kNode = 9 << 10;

MeasuredPlan Measure(const std::string& name, PlanData data, Span<const uint8_t> weights) {
  const FakeGpu gpu(&data);
  Driver* const driver = CreateCudaDriver().Take();
  MeasureOptions options;
  options.sessions = 24;
  Result<MeasuredPlan> measured = MeasurePlan(name, Plan::FromData(data, weights).Take(), driver, options);
  EXPECT_TRUE(measured.ok()) << measured.status().message();
  DestroyCudaDriver(driver);
  return measured.ok() ? measured.Take() : MeasuredPlan();
}

CompiledPlan Pycoder(const std::vector<ModelSource>& models) {
  CompileOptions options;
  options.models = models;
  return CompileToMemory(options).Take();
}

class MeasuredMemory : public testing::Test {
 protected:
  MeasuredMemory() {
    fake_cuda::Heal();
    fake_cuda::Machine machine;
    machine.device_bytes = uint64_t{8} << 30;
    machine.module_bytes = kModule;
    machine.node_bytes = kNode;
    fake_cuda::SetMachine(machine);
    const std::string folder = SourceFolder() + "/tests/data/pycoder/";
    const ModelSource prefill = {"prefill", folder + "prefill64.onnx"},
                      decode = {"decode", folder + "decode.onnx"};
    for (const std::vector<ModelSource>& models : {std::vector{decode}, std::vector{prefill, decode}}) {
      const CompiledPlan compiled = Pycoder(models);
      plans_.push_back(
          Measure("of " + std::to_string(models.size()), compiled.plan, AssembleWeights(compiled)));
    }
    TinyPlan tiny;
    plans_.push_back(Measure("tiny", tiny.data, tiny.weight_bytes()));
  }
  ~MeasuredMemory() override {
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
    fake_cuda::SetMachine({});
  }

  std::vector<MeasuredPlan> plans_;
};

TEST_F(MeasuredMemory, IsWhatTheDeviceTakesAndTheFitFindsIt) {
  for (const MeasuredPlan& plan : plans_) {
    const DeviceMemory stated = EstimateDeviceMemory(plan.needs);
    ASSERT_EQ(plan.sessions.size(), 24u);
    for (size_t i = 0; i < plan.sessions.size(); ++i)
      EXPECT_EQ(static_cast<uint64_t>(plan.sessions[i].blocks), BlockBytes(stated, i + 1)) << plan.name;
    EXPECT_EQ(plan.sessions[0].code, static_cast<int64_t>(InDeviceSteps(kModule)));
    EXPECT_EQ(plan.modules.back(), static_cast<int64_t>(InDeviceSteps(plan.modules.size() * kModule)));
  }
  DeviceMemoryRates start;
  const DeviceMemoryRates fitted = FitRates(plans_, start);
  EXPECT_NEAR(static_cast<double>(fitted.graph_node), kNode, kNode / 10);
  for (const MeasuredPlan& plan : plans_) {
    const double code = static_cast<double>(fitted.code * plan.needs.codes) +
                        static_cast<double>(fitted.code_kibibyte * plan.needs.code_bytes) / 1024;
    EXPECT_NEAR(code, kModule, kModule / 10) << plan.name;
    for (const StatementError& error : ErrorsOf(plan, fitted))
      EXPECT_TRUE(error.good()) << plan.name << ", " << error.sessions << ": " << error.stated << ", "
                                << error.taken;
  }
  // If graphs are left out, the statement for 24 sessions with many nodes is too low.
  EXPECT_FALSE(ErrorsOf(plans_[1], start).back().good());
  EXPECT_NE(StageTable(plans_[1], start).find("beyond 1 % and 4 MiB"), std::string::npos);
  EXPECT_NE(RatesText(fitted).find(".graph_node = " + std::to_string(fitted.graph_node)), std::string::npos);
}

TEST_F(MeasuredMemory, IsReadAsItWasWritten) {
  std::stringstream text;
  for (const MeasuredPlan& plan : plans_) Write(plan, text);
  const std::string written = text.str();
  const Result<std::vector<MeasuredPlan>> read = ReadMeasured(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  std::stringstream again;
  for (const MeasuredPlan& plan : *read) Write(plan, again);
  EXPECT_EQ(again.str(), written);
  for (const char* bad : {"session 1 2 3 4 5\n", "plan x 1 2\n", "nonsense\n", "module 4\n"}) {
    std::istringstream lines(bad);
    EXPECT_EQ(ReadMeasured(lines).status().code(), Code::kInvalidArgument) << bad;
  }
}

// The fit finds the rates of machine code (by bytes and by codes), of cuBLASLt and of CUDA's start that the
// plans were made with.
TEST(FittedRates, AreThoseThatPlansFollow) {
  const DeviceMemoryRates rates = {.code_kibibyte = 900,
                                   .code = 40 << 10,
                                   .code_once = 1 << 20,
                                   .graph_node = 3000,
                                   .graph = 70000,
                                   .graphs_once = 600 << 10,
                                   .library = 30 << 20,
                                   .start = 500 << 20};
  std::vector<MeasuredPlan> plans;
  for (uint64_t i = 1; i <= 6; ++i) {
    MeasuredPlan plan;
    plan.needs.codes = i * i * 4;
    plan.needs.code_bytes = (7 - i) * 300'000;
    plan.needs.library = i == 6;
    plan.needs.nodes = 60 * (i % 3 + 1);
    plan.needs.graphs = i;
    plan.needs.session = 5 << 20;
    plan.start = rates.start;
    const DeviceMemory memory = EstimateDeviceMemory(plan.needs, rates);
    for (uint64_t n = 1; n <= 64; ++n) {
      TakenBytes taken;
      taken.code = static_cast<int64_t>(memory.code + memory.library);
      taken.blocks = static_cast<int64_t>(BlockBytes(memory, n));
      taken.all = static_cast<int64_t>(BytesOfSessions(memory, n));
      plan.sessions.push_back(taken);
      const uint64_t code =
          plan.needs.code_bytes * rates.code_kibibyte / 1024 + plan.needs.codes * rates.code;
      plan.modules.push_back(static_cast<int64_t>(InDeviceSteps(n * code)));
    }
    plans.push_back(plan);
  }
  const DeviceMemoryRates fitted = FitRates(plans, {});
  const auto near = [](uint64_t found, uint64_t wanted) {
    EXPECT_NEAR(static_cast<double>(found), static_cast<double>(wanted), 0.06 * static_cast<double>(wanted));
  };
  near(fitted.code_kibibyte, rates.code_kibibyte);
  near(fitted.code, rates.code);
  near(fitted.graph_node, rates.graph_node);
  near(fitted.graph, rates.graph);
  EXPECT_EQ(fitted.start, rates.start);
  for (const MeasuredPlan& plan : plans) {
    for (const StatementError& error : ErrorsOf(plan, fitted))
      EXPECT_TRUE(error.good()) << error.sessions << ": " << error.difference();
  }
}

}  // namespace
}  // namespace rondo::bench
