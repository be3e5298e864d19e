// The cuda driver on a GPU, beyond tests/conformance: custom ops between graphs, large weights, memory that
// runs out, faults. Skipped where there is none. tests/cuda/fake has the same without a GPU, and more
// failures.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "compiler/codegen/cuda/add_modules.h"
#include "compiler/compile.h"
#include "core/synthetic.h"
#include "drivers/cuda/cuda_driver.h"
#include "drivers/host/host_driver.h"
#include "runtime/session.h"
#include "tests/import/model_maker.h"
#include "tests/plan/call_plan.h"
#include "tests/runtime/open_tiny.h"
#include "tests/says.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;
using Floats = std::vector<float>;

// Returns the value, or prints the error and ends this program.
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.status().message());
  return result.Take();
}

class GpuDriver : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ops_.Register("libtest.so", RegisterTestOps).ok());
    CudaOptions options;
    options.ops = &ops_;
    Result<Driver*> driver = CreateCudaDriver(options);
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    driver_ = *driver;
    device_ = driver_->Open(0).Take();
    stream_ = device_->CreateStream().Take();
  }
  void TearDown() override {
    if (driver_ == nullptr) return;
    device_->DestroyStream(stream_);
    DestroyCudaDriver(driver_);
  }

  // `tiny`'s plan with machine code for `architecture`.
  static PlanData ForGpu(const TinyPlan& tiny, EmittedPlan* emitted, const char* architecture = "sm_90a") {
    emitted->arena = std::make_unique<Arena>();
    emitted->plan = tiny.data;
    std::string report;
    ModuleOptions options;
    options.units.architecture = architecture;
    const Status status = AddCudaModules(emitted, options, &report);
    EXPECT_TRUE(status.ok()) << status.message();
    return emitted->plan;
  }

  // Calls `life` twice. CUDA keeps some memory of its first use; after the second call nothing more may stay
  // allocated.
  template <typename Life>
  void ExpectNothingStays(Life life) {
    life();
    const uint64_t before = FreeBytes();
    life();
    EXPECT_EQ(FreeBytes(), before);
  }

  uint64_t FreeBytes() {
    uint64_t free_bytes = 0, total_bytes = 0;
    EXPECT_TRUE(device_->MemoryInfo(&free_bytes, &total_bytes).ok());
    return free_bytes;
  }

  OpRegistry ops_;
  Driver* driver_ = nullptr;
  Device* device_ = nullptr;
  Stream* stream_ = nullptr;
};

TEST(GpuMachine, WithoutAGpuIsToldWhatItLacks) {
  const Result<Driver*> driver = CreateCudaDriver();
  if (driver.ok()) return DestroyCudaDriver(*driver);
  EXPECT_EQ(driver.status().code(), Code::kUnsupported);
  EXPECT_SAYS(driver.status(), "NVIDIA");
}

TEST_F(GpuDriver, LargeWeightsArriveAndNothingStays) {
  const uint64_t bytes = (512ull << 20) + 12345;
  const Buffer large = [&] {
    Buffer buffer;
    buffer.kind = BufferKind::kConstant;
    buffer.bytes = bytes;
    return buffer;
  }();
  TinyPlan tiny;
  EmittedPlan emitted;
  PlanData data = ForGpu(tiny, &emitted);
  data.buffers = Span<const Buffer>(&large, 1);
  std::vector<uint64_t> from(bytes / 8 + 1), got(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = SyntheticMix(i);
  const DeviceAddress to = device_->Allocate(bytes, 256).Take();
  Module* module = Must(device_->LoadModule(data));
  uint32_t step = 0;
  const auto start = std::chrono::steady_clock::now();
  const Status copied = device_->CopyIn(to, from.data(), bytes, stream_);
  EXPECT_TRUE(copied.ok()) << copied.message();
  EXPECT_TRUE(device_->Synchronize(stream_, &step).ok());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("page-locked buffers: %.1f GB/s\n", static_cast<double>(bytes) / took.count() * 1e-9);
  const auto again = std::chrono::steady_clock::now();
  EXPECT_TRUE(
      device_->CopyIn(to, from.data(), bytes, stream_).ok());  // pageable memory, as in a run's copies
  EXPECT_TRUE(device_->Synchronize(stream_, &step).ok());
  const std::chrono::duration<double> pageable = std::chrono::steady_clock::now() - again;
  std::printf("pageable: %.1f GB/s\n", static_cast<double>(bytes) / pageable.count() * 1e-9);
  EXPECT_TRUE(device_->CopyOut(got.data(), to, bytes, stream_).ok());
  EXPECT_TRUE(device_->Synchronize(stream_, &step).ok());
  EXPECT_EQ(std::memcmp(from.data(), got.data(), bytes), 0);
  device_->DestroyModule(module);
  device_->Free(to, bytes);
}

// x -> Neg -> Scale by 3 -> Abs, and total + x in the state. Four threads run, each with its own session.
TEST_F(GpuDriver, CustomOpsRunBetweenGraphs) {
  ModelMaker model;
  model.proto.add_opset_import()->set_domain("test");
  model.proto.mutable_opset_import(1)->set_version(1);
  model.Input("x", {1000});
  model.Input("total", {1000});
  model.Node("Neg", {"x"}, {"n"});
  onnx::NodeProto* scale = model.Node("Scale", {"n"}, {"s"});
  scale->set_domain("test");
  onnx::AttributeProto* factor = scale->add_attribute();
  factor->set_name("factor");
  factor->set_type(onnx::AttributeProto::FLOAT);
  factor->set_f(3);
  model.Node("Abs", {"s"}, {"y"});
  model.Node("Accumulate", {"total", "x"}, {"total_out"})->set_domain("test");
  model.Output("y");
  model.Output("total_out");
  const TemporaryFolder folder;
  const std::string path = folder.File("m.onnx");
  std::ofstream(path, std::ios::binary) << model.proto.SerializeAsString();
  CompileOptions options;
  options.models = {{"main", path}};
  options.ops = &ops_;
  options.targets = *ParseTargets("cuda:sm_90a");
  options.states = {{"total", "total_out"}};
  Result<CompiledPlan> compiled = CompileToMemory(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_GE(compiled->plan.programs[0].partitions.size(), 4u);
  ExpectNothingStays([&] {
    Runtime runtime = Must(Runtime::Create(driver_));
    Plan plan = Must(Plan::FromData(compiled->plan, {}));
    constexpr int kSessions = 4, kRuns = 200;
    std::vector<Session> sessions;
    for (int i = 0; i < kSessions; ++i) {
      Result<Session> session = Session::Create(runtime, plan);
      ASSERT_TRUE(session.ok()) << session.status().message();
      sessions.push_back(session.Take());
    }
    std::vector<std::thread> threads;
    for (int s = 0; s < kSessions; ++s) {
      threads.emplace_back([&, s] {
        const Floats x(1000, static_cast<float>(s + 1));
        for (int run = 0; run < kRuns; ++run) {
          Floats y(1000);
          const Input inputs[] = {{"x", kNone, DType::kF32, {1000}, x.data(), 4000}};
          const Output outputs[] = {{"y", kNone, DType::kF32, y.data(), 4000}};
          const Status status = sessions[static_cast<size_t>(s)].Run(0, inputs, outputs);
          EXPECT_TRUE(status.ok()) << status.message();
          EXPECT_EQ(y, Floats(1000, 3 * x[0]));
        }
        Floats total(1000);
        EXPECT_TRUE(sessions[static_cast<size_t>(s)].ReadState("total", total.data(), 4000).ok());
        EXPECT_EQ(total, Floats(1000, kRuns * x[0]));
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_F(GpuDriver, MemoryThatRunsOutIsOneSentenceAndOthersLive) {
  TinyPlan tiny;
  tiny.NeedMore(0, 64 << 20, 0);
  EmittedPlan emitted;
  const PlanData data = ForGpu(tiny, &emitted);
  ExpectNothingStays([&] {
    Runtime runtime = Must(Runtime::Create(driver_));
    Plan plan = Must(Plan::FromData(data, tiny.weight_bytes()));
    Session alive = Must(Session::Create(runtime, plan));
    std::vector<std::pair<DeviceAddress, uint64_t>> taken;
    for (uint64_t size = uint64_t{32} << 30; size >= 16 << 20;) {
      Result<DeviceAddress> block = device_->Allocate(size, 256);
      if (block.ok()) {
        taken.emplace_back(*block, size);
      } else {
        size /= 2;
      }
    }
    const Status status = Session::Create(runtime, plan).status();
    std::printf("%s\n", status.message());
    EXPECT_EQ(status.code(), Code::kOutOfMemory);
    EXPECT_SAYS(status, "the session's arena and state of");
    EXPECT_SAYS(status, "free");
    const Status run = RunAddOnce(alive);
    EXPECT_TRUE(run.ok()) << run.message();
    for (const auto& [address, size] : taken) device_->Free(address, size);
    Result<Session> after = Session::Create(runtime, plan);
    EXPECT_TRUE(after.ok()) << after.status().message();
  });
}

TEST_F(GpuDriver, CodeForAnotherArchitectureIsRefused) {
  TinyPlan tiny;
  EmittedPlan emitted;
  const PlanData data = ForGpu(tiny, &emitted, "sm_80");
  Runtime runtime = Must(Runtime::Create(driver_));
  Plan plan = Must(Plan::FromData(data, tiny.weight_bytes()));
  const Status status = Session::Create(runtime, plan).status();
  std::printf("%s\n", status.message());
  EXPECT_SAYS(
      status,
      "sm_80 is machine code for compute capabilities 8.0 to 8.9; compile it with --target cuda:sm_90a");
}

TEST_F(GpuDriver, AnIndexOutOfRangeFailsItsRunAlone) {
  TinyPlan tiny;
  EmittedPlan emitted;
  const PlanData data = ForGpu(tiny, &emitted);
  Runtime runtime = Must(Runtime::Create(driver_));
  Plan plan = Must(Plan::FromData(data, tiny.weight_bytes()));
  Session session = Must(Session::Create(runtime, plan));
  int64_t index = 7;
  float z = 0;
  const Input inputs[] = {{"index", kNone, DType::kI64, {1}, &index, 8}};
  const Output outputs[] = {{"z", kNone, DType::kF32, &z, 4}};
  const Status bad = session.Run(TinyPlan::kPick, inputs, outputs);
  std::printf("%s\n", bad.message());
  EXPECT_SAYS(bad, "(Gather \"gather_node\")");
  EXPECT_SAYS(bad, "index 7 is out of range: it must be within 0 to 3");
  index = 2;
  EXPECT_TRUE(session.Run(TinyPlan::kPick, inputs, outputs).ok());
  EXPECT_EQ(z, 3);
  EXPECT_TRUE(runtime.Ready().ok());
}

// This test comes last, because the process can no longer use CUDA after it.
TEST_F(GpuDriver, WritesToNobodysMemoryEndSessionsOnGpusAndNoOthers) {
  TinyPlan tiny;
  EmittedPlan emitted;
  const PlanData data = ForGpu(tiny, &emitted);
  Driver* host = Must(CreateHostDriver({}));
  {
    Runtime runtime = Must(Runtime::Create(driver_)), host_runtime = Must(Runtime::Create(host));
    Plan plan = Must(Plan::FromData(data, tiny.weight_bytes()));
    Session first = Must(Session::Create(runtime, plan)), second = Must(Session::Create(runtime, plan));
    Session on_host = Must(Session::Create(host_runtime, plan));
    Runtime other_runtime;
    Session other;
    if (driver_->DeviceCount() > 1) {
      const uint32_t one = 1;
      RuntimeOptions options;
      options.devices = {&one, 1};
      other_runtime = Must(Runtime::Create(driver_, options));
      other = Must(Session::Create(other_runtime, plan));
    }
    EXPECT_TRUE(RunAddOnce(first).ok());
    EXPECT_TRUE(runtime.Ready().ok());

    Module* module = Must(device_->LoadModule(data));
    const DeviceAddress nowhere[] = {4096, 4096, 4096, 4096};
    Status status = device_->Launch(module, 0, nowhere, stream_, 0);
    uint32_t step = 0;
    if (status.ok()) status = device_->Synchronize(stream_, &step);
    std::printf("%s\n", status.message());
    EXPECT_SAYS(status, "the process must be replaced");

    const Status run = RunAddOnce(first);
    std::printf("%s\n", run.message());
    EXPECT_SAYS(run, "no session on a GPU can go on");
    EXPECT_SAYS(RunAddOnce(second), "no session on a GPU can go on");
    EXPECT_SAYS(runtime.Ready(), "the process must be replaced");
    EXPECT_TRUE(RunAddOnce(on_host).ok());
    EXPECT_TRUE(host_runtime.Ready().ok());
    if (other.valid()) {
      EXPECT_SAYS(RunAddOnce(other), "no session on a GPU can go on");
      EXPECT_SAYS(other_runtime.Ready(), "the process must be replaced");
    }
    device_->DestroyModule(module);
  }
  DestroyHostDriver(host);
}

}  // namespace
}  // namespace rondo
