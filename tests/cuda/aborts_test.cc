// Collectives on GPUs when a rank fails: the run ends with an error that names the place, nothing hangs, and
// the process and its memory stay usable. Also compares every collective op with virtual devices. Two ranks,
// each on a GPU of its own (skipped with fewer than two), and both on one (skipped with an NCCL older than
// 2.30).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "drivers/cuda/cuda_driver.h"
#include "drivers/host/host_driver.h"
#include "tests/collectives/mesh.h"
#include "tests/cuda/machine_code.h"
#include "tests/cuda/rank_devices.h"
#include "tests/says.h"

namespace rondo {
namespace {

constexpr uint32_t kGpus = 2;

// Returns the value, or prints the error and ends this program.
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.status().message());
  return result.Take();
}

bool cuda_ended = false;  // this process can no longer use CUDA

// Whether the ranks share a GPU, and what computes their collectives.
using Place = std::tuple<bool, CollectiveKernels>;

class GpuAborts : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    const auto [shared, kernels] = GetParam();
    if (cuda_ended && !BeginCudaAgain()) GTEST_SKIP() << "CUDA has ended for this process";
    Result<Driver*> driver = CreateCudaDriverFor(kernels);
    if (!driver.ok()) GTEST_SKIP() << driver.status().message();
    const uint32_t gpus = shared ? 1 : kGpus;
    if (const std::string lack = LackFor(*driver, kGpus, gpus); !lack.empty()) {
      DestroyCudaDriver(*driver);
      GTEST_SKIP() << lack;
    }
    gpus_ = std::make_unique<RankDevices>(*driver, kGpus, gpus);
  }

  uint64_t FreeBytes(uint32_t device) {
    uint64_t free_bytes = 0, total_bytes = 0;
    EXPECT_TRUE(Must(gpus_->Open(device))->MemoryInfo(&free_bytes, &total_bytes).ok());
    return free_bytes;
  }

  // Runs once and measures the time.
  static Status TimedRun(Layers& layers, Session* session, double* seconds) {
    bool right = false;
    const auto start = std::chrono::steady_clock::now();
    Status status = layers.Run(session, &right);
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (status.ok() && !right) return Status::Error(Code::kInternal, "results differ");
    return status;
  }

  std::unique_ptr<RankDevices> gpus_;
};

TEST_P(GpuAborts, ARankThatNeverLaunchesEndsTheRunOfAll) {
  Layers layers(kGpus, 3, 4096);
  PlanData data = layers.mesh.data;
  const MachineCode code(&data);
  double seconds = 0;
  for (int round = 0; round < 3; ++round) {
    const uint64_t before[] = {FreeBytes(0), FreeBytes(1)};
    {
      Runtime runtime = Must(Runtime::Create(gpus_.get()));
      Plan plan = Must(Plan::FromData(data, {}));
      Session session = Must(Session::Create(runtime, plan));
      std::printf("two communicators: %llu and %llu bytes\n",
                  static_cast<unsigned long long>(before[0] - FreeBytes(0)),
                  static_cast<unsigned long long>(before[1] - FreeBytes(1)));
      const Status good = TimedRun(layers, &session, &seconds);
      EXPECT_TRUE(good.ok()) << good.message();
      gpus_->ranks[1].never_launches = true;
      const Status failed = TimedRun(layers, &session, &seconds);
      gpus_->ranks[1].never_launches = false;
      std::printf("%.3f s: %s\n", seconds, failed.message());
      EXPECT_SAYS(failed, "this rank does not launch");
      EXPECT_SAYS(failed, "device 1");
      EXPECT_LT(seconds, 5);
      EXPECT_SAYS(TimedRun(layers, &session, &seconds), "this rank does not launch");
      EXPECT_TRUE(runtime.Ready().ok());
      // Another session on the same devices has working communicators.
      Session after = Must(Session::Create(runtime, plan));
      const Status again = TimedRun(layers, &after, &seconds);
      EXPECT_TRUE(again.ok()) << again.message();
    }
    if (round == 0) continue;  // CUDA and NCCL keep some memory of their first use
    EXPECT_EQ(FreeBytes(0), before[0]);
    EXPECT_EQ(FreeBytes(1), before[1]);
  }
}

// Compares each op's results on each rank. A sum of two terms is the same in either order.
TEST_P(GpuAborts, EveryCollectiveOpIsAsOnVirtualDevices) {
  constexpr int64_t kElements = 1000;
  constexpr uint64_t kBytes = kElements * 4;
  MeshPlan mesh(kGpus);
  const uint32_t add = mesh.AddKernel(kElements);
  struct Kind {
    CollectiveOp op;
    int64_t from, to;  // elements
  };
  const Kind kKinds[] = {{CollectiveOp::kAllReduce, kElements, kElements},
                         {CollectiveOp::kAllGather, kElements, kGpus * kElements},
                         {CollectiveOp::kReduceScatter, kGpus * kElements, kElements},
                         {CollectiveOp::kBroadcast, kElements, kElements}};
  for (const Kind& kind : kKinds)
    mesh.AddSyncPoint(kind.op, DType::kF32, kBytes, 0, mesh.AllDevices(), Name(kind.op));
  std::vector<std::string> names;
  for (uint32_t d = 0; d < kGpus; ++d) {
    const std::string number = std::to_string(d);
    const uint32_t in = mesh.Add(BufferKind::kInput, d, "in" + number, kGpus * kElements);
    const uint32_t twice = mesh.Add(BufferKind::kTemporary, d, "twice" + number, kElements);
    const uint32_t small = mesh.Add(BufferKind::kInput, d, "small" + number, kElements);
    mesh.Launch(d, add, {small, small, twice});
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t out =
          mesh.Add(BufferKind::kOutput, d, "out" + number + "_" + std::to_string(i), kKinds[i].to);
      mesh.Start(d, i, {kKinds[i].from == kElements ? twice : in, 0}, {out, 0});
      mesh.Wait(d, i);
    }
  }
  mesh.Finish();
  PlanData data = mesh.data;
  const MachineCode code(&data);

  auto run = [&](Driver* driver, std::vector<std::vector<float>>* results) -> Status {
    RONDO_ASSIGN_OR_RETURN(Runtime runtime, Runtime::Create(driver));
    RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::FromData(data, {}));
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
    const Program& program = data.programs[0];
    std::vector<std::vector<float>> values;
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    float next = 0.1f;
    for (const Port& port : program.inputs) {
      const Buffer& b = data.buffers[port.buffer];
      values.emplace_back(b.bytes / 4);
      for (float& value : values.back()) value = next = next * 1.37f - static_cast<float>(next > 3) * 4;
      inputs.push_back({port.name, kNone, b.dtype, b.shape, values.back().data(), b.bytes});
    }
    for (const Port& port : program.outputs) {
      const Buffer& b = data.buffers[port.buffer];
      results->emplace_back(b.bytes / 4);
      outputs.push_back({port.name, kNone, b.dtype, results->back().data(), b.bytes});
    }
    for (int i = 0; i < 20; ++i) RONDO_RETURN_IF_ERROR(session.Run(0, inputs, outputs));
    return Status::Ok();
  };
  std::vector<std::vector<float>> on_host, on_gpus;
  HostOptions options;
  options.devices = kGpus;
  Driver* host = Must(CreateHostDriver(options));
  const Status first = run(host, &on_host);
  DestroyHostDriver(host);
  ASSERT_TRUE(first.ok()) << first.message();
  const Status second = run(gpus_.get(), &on_gpus);
  ASSERT_TRUE(second.ok()) << second.message();
  for (size_t i = 0; i < on_host.size(); ++i) EXPECT_EQ(on_gpus[i], on_host[i]) << Name(kKinds[i % 4].op);
}

// Small collectives that are waited for at once run on their kernels' stream, others beside it. They keep
// their order all the same.
TEST_P(GpuAborts, CollectivesOfSeveralStreamsAreInOrder) {
  constexpr int64_t kElements = 2000;
  MeshPlan mesh(kGpus);
  const uint32_t add = mesh.AddKernel(kElements);
  for (const char* name : {"beside", "other stream", "among", "again beside"})
    mesh.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, kElements * 4, 0, mesh.AllDevices(), name);
  for (uint32_t d = 0; d < kGpus; ++d) {
    const std::string number = std::to_string(d);
    const uint32_t in = mesh.Add(BufferKind::kInput, d, "in" + number, kElements),
                   twice = mesh.Add(BufferKind::kTemporary, d, "twice" + number, kElements);
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < 4; ++i)
      out.push_back(mesh.Add(BufferKind::kOutput, d, "out" + number + std::to_string(i), kElements));
    const uint32_t launched = mesh.Launch(d, add, {in, in, twice});
    mesh.Start(d, 0, {in, 0}, {out[0], 0});
    const uint32_t other = mesh.Start(d, 1, {twice, 0}, {out[1], 0}, 1), waited = mesh.Wait(d, 1, 1);
    mesh.Start(d, 2, {twice, 0}, {out[2], 0});
    mesh.Wait(d, 2);
    mesh.Start(d, 3, {in, 0}, {out[3], 0});
    const uint32_t last = mesh.Wait(d, 0);
    mesh.Wait(d, 3);
    mesh.Order(launched, other);
    mesh.Order(waited, last);
  }
  mesh.Finish();
  PlanData data = mesh.data;
  const MachineCode code(&data);
  Runtime runtime = Must(Runtime::Create(gpus_.get()));
  Plan plan = Must(Plan::FromData(data, {}));
  Session session = Must(Session::Create(runtime, plan));
  std::vector<std::vector<float>> in(kGpus), out(4 * kGpus, std::vector<float>(kElements));
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  for (uint32_t d = 0; d < kGpus; ++d) {
    in[d].assign(kElements, static_cast<float>(10 * d + 1));
    inputs.push_back(
        {data.programs[0].inputs[d].name, kNone, DType::kF32, {kElements}, in[d].data(), kElements * 4});
  }
  for (size_t o = 0; o < out.size(); ++o)
    outputs.push_back({data.programs[0].outputs[o].name, kNone, DType::kF32, out[o].data(), kElements * 4});
  for (int run = 0; run < 100; ++run) {
    RunOptions options;
    options.stepwise = run % 10 == 9;
    const Status ran = session.Run(0, inputs, outputs, options);
    ASSERT_TRUE(ran.ok()) << ran.message();
    for (size_t o = 0; o < out.size(); ++o) {
      const float sum = o % 4 == 0 || o % 4 == 3 ? 12 : 24;
      EXPECT_EQ(out[o], std::vector<float>(kElements, sum)) << "output " << o << " run " << run;
    }
  }
}

// The order of collectives is compared before anything is made on any device.
TEST_P(GpuAborts, RanksThatDisagreeAreRefusedBeforeTheFirstLaunch) {
  Layers layers(kGpus, 2, 4096);
  PlanData data = layers.mesh.data;
  const MachineCode code(&data);
  const uint64_t before[] = {FreeBytes(0), FreeBytes(1)};
  // Device 1 has two sync points of one communicator in the opposite order.
  std::vector<Step> steps(data.programs[0].steps.begin(), data.programs[0].steps.end());
  for (Step& step : steps) {
    if (step.device == 1 && (step.sync_point == 0 || step.sync_point == 2))
      step.sync_point = 2 - step.sync_point;
  }
  Program program = data.programs[0];
  program.steps = steps;
  data.programs = Span<const Program>(&program, 1);
  const Status status = Plan::FromData(data, {}).status();
  std::printf("%s\n", status.message());
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_SAYS(status, "device 1");
  EXPECT_EQ(FreeBytes(0), before[0]);
  EXPECT_EQ(FreeBytes(1), before[1]);
}

// This test comes last, because the process can no longer use CUDA after it.
TEST_P(GpuAborts, AFaultOnOneRankEndsTheRunAndTheHostGoesOn) {
  cuda_ended = true;
  Layers layers(kGpus, 3, 4096);
  PlanData data = layers.mesh.data;
  const MachineCode code(&data);
  HostOptions options;
  options.devices = kGpus;
  Driver* host = Must(CreateHostDriver(options));
  {
    Runtime runtime = Must(Runtime::Create(gpus_.get())), host_runtime = Must(Runtime::Create(host));
    Plan plan = Must(Plan::FromData(data, {}));
    Session session = Must(Session::Create(runtime, plan)),
            on_host = Must(Session::Create(host_runtime, plan));
    double seconds = 0;
    gpus_->ranks[1].poison = Must(gpus_->ranks[1].LoadModule(data));
    const Status failed = TimedRun(layers, &session, &seconds);
    std::printf("%.3f s: %s\n", seconds, failed.message());
    EXPECT_SAYS(failed, "(700)");
    EXPECT_LT(seconds, 10);
    EXPECT_SAYS(runtime.Ready(), "the process must be replaced");
    const Status alive = TimedRun(layers, &on_host, &seconds);
    EXPECT_TRUE(alive.ok()) << alive.message();
    gpus_->ranks[1].DestroyModule(gpus_->ranks[1].poison);
    gpus_->ranks[1].poison = nullptr;
  }
  DestroyHostDriver(host);
}

std::string NameOfPlace(const testing::TestParamInfo<Place>& of) {
  const auto [shared, kernels] = of.param;
  return std::string(kernels == CollectiveKernels::kNccl ? "Nccl" : "Small") +
         (shared ? "OnOneGpu" : "OnTwoGpus");
}
INSTANTIATE_TEST_SUITE_P(Ranks, GpuAborts,
                         testing::Combine(testing::Bool(), testing::Values(CollectiveKernels::kNccl,
                                                                           CollectiveKernels::kSmall)),
                         NameOfPlace);

}  // namespace
}  // namespace rondo
