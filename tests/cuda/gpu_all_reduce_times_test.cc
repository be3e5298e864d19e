// The time of an all-reduce, by size and ranks, through the cuda driver, on GPUs of their own or, if there
// are fewer, on shared ones. Prints a table and checks the sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "runtime/run_timer.h"
#include "tests/collectives/mesh_plan.h"
#include "tests/cuda/machine_code.h"
#include "tests/cuda/rank_devices.h"

namespace rondo {
namespace {

constexpr uint32_t kInARow = 8;  // all-reduces in one graph
constexpr int kRuns = 60;

// A plan of kInARow all-reduces of `elements` floats, all from the same input.
struct AllReduces {
  AllReduces(uint32_t ranks, int64_t elements) : mesh(ranks) {
    const auto bytes = static_cast<uint64_t>(elements) * 4;
    for (uint32_t i = 0; i < kInARow; ++i)
      mesh.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, bytes, 0, mesh.AllDevices(), "sum");
    mesh.AddKernel(elements);
    for (uint32_t d = 0; d < ranks; ++d) {
      const uint32_t in = mesh.Add(BufferKind::kInput, d, "in" + std::to_string(d), elements),
                     out = mesh.Add(BufferKind::kOutput, d, "out" + std::to_string(d), elements);
      for (uint32_t i = 0; i < kInARow; ++i) {
        mesh.Start(d, i, {in, 0}, {out, 0});
        mesh.Wait(d, i);
      }
      values.emplace_back(static_cast<size_t>(elements), static_cast<float>(d + 1));
      names.push_back("in" + std::to_string(d));
    }
    mesh.Finish();
    data = mesh.data;
    code = std::make_unique<MachineCode>(&data);
    sum.resize(static_cast<size_t>(elements));
  }

  Status Open(Driver* driver) {
    RONDO_ASSIGN_OR_RETURN(runtime, Runtime::Create(driver));
    RONDO_ASSIGN_OR_RETURN(plan, Plan::FromData(data, {}));
    RONDO_ASSIGN_OR_RETURN(session, Session::Create(runtime, plan));
    return Status::Ok();
  }
  // Device microseconds of one all-reduce on rank 0, the median of kRuns graphs.
  Result<double> Measure() {
    RONDO_ASSIGN_OR_RETURN(RunTimer timer, RunTimer::Create(session, 0, TimerDetail::kPartitions));
    const auto elements = static_cast<int64_t>(sum.size());
    const uint64_t bytes = sum.size() * 4;
    std::vector<Input> inputs;
    for (size_t d = 0; d < names.size(); ++d)
      inputs.push_back({names[d], kNone, DType::kF32, {elements}, values[d].data(), bytes});
    const Output output{"out0", kNone, DType::kF32, sum.data(), bytes};
    std::vector<double> times;
    for (int run = 0; run < kRuns; ++run) {
      RunOptions options;
      options.timer = &timer;
      RONDO_RETURN_IF_ERROR(session.Run(0, inputs, Span<const Output>(&output, 1), options));
      RONDO_ASSIGN_OR_RETURN(const TimedInterval interval, timer.Read(0));
      times.push_back(interval.duration / kInARow);
    }
    const auto want = static_cast<float>(names.size() * (names.size() + 1) / 2);
    if (sum.front() != want || sum.back() != want) return Status::Error(Code::kInternal, "sums are wrong");
    std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
    return times[kRuns / 2];
  }

  MeshPlan mesh;
  PlanData data;
  std::unique_ptr<MachineCode> code;
  std::vector<std::vector<float>> values;  // one a rank
  std::vector<std::string> names;
  std::vector<float> sum;
  Runtime runtime;
  Plan plan;
  Session session;
};

class AllReduceTimes : public testing::TestWithParam<RankCase> {};

TEST_P(AllReduceTimes, BySize) {
  Result<Driver*> driver = CreateCudaDriverFor(GetParam().kernels);
  const uint32_t count = GetParam().ranks;
  if (!driver.ok()) GTEST_SKIP() << driver.status().message();
  const uint32_t gpus = std::min((*driver)->DeviceCount(), count);
  if (const std::string lack = LackFor(*driver, GetParam(), gpus); !lack.empty()) {
    DestroyCudaDriver(*driver);
    GTEST_SKIP() << lack;
  }
  const int version = CudaNcclVersion(*driver);
  RankDevices ranks(*driver, count, gpus);
  std::vector<std::unique_ptr<AllReduces>> all;  // kept alive, so that all share one communicator
  std::string line;
  const bool nccl = GetParam().kernels == CollectiveKernels::kNccl;
  for (int64_t kib : {1, 4, 16, 64, 128, 256, 512, 1024, 4096, 16384, 65536, 262144}) {
    if (!nccl && kib > 4096) break;
    all.push_back(std::make_unique<AllReduces>(count, kib * 256));
    const Status opened = all.back()->Open(&ranks);
    ASSERT_TRUE(opened.ok()) << opened.message();
    Result<double> us = all.back()->Measure();
    ASSERT_TRUE(us.ok()) << us.status().message();
    char text[48];
    std::snprintf(text, sizeof(text), "  %lld KiB %.1f", static_cast<long long>(kib), *us);
    line += text;
  }
  std::printf("%u ranks on %u GPU%s, %s, us an all-reduce:%s\n", count, gpus, gpus == 1 ? "" : "s",
              nccl ? (std::string("NCCL ") + nccl::VersionText(version).text).c_str() : "small",
              line.c_str());
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllReduceTimes, testing::ValuesIn(kRankCases), NameOf);

}  // namespace
}  // namespace rondo
