// A plan's devices in several processes, through the cuda driver and NCCL: the processes are threads here,
// each with a driver of its own.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "tests/collectives/mesh.h"
#include "tests/cuda/fake/fake_nccl.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/processes/together.h"

namespace rondo {
namespace {

// One process's driver, runtime and session of `data`, with its GPU.
struct Own {
  ~Own() {
    session = Session();
    runtime = Runtime();
    if (driver != nullptr) DestroyCudaDriver(driver);
  }
  Status Open(const PlanData& data, Processes& self, uint32_t gpu, uint64_t watchdog_ns = 0) {
    CudaOptions options;
    options.processes = &self;
    RONDO_ASSIGN_OR_RETURN(driver, CreateCudaDriver(options));
    RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::FromData(data, {}));
    RuntimeOptions runtime_options;
    runtime_options.devices = {&gpu, 1};
    RONDO_ASSIGN_OR_RETURN(runtime, Runtime::Create(driver, runtime_options));
    SessionOptions session_options;
    session_options.watchdog_ns = watchdog_ns;
    RONDO_ASSIGN_OR_RETURN(session, Session::Create(runtime, plan, session_options));
    return Status::Ok();
  }
  Driver* driver = nullptr;
  Runtime runtime;
  Session session;
};

class SeveralProcesses : public testing::TestWithParam<uint32_t> {
 protected:
  SeveralProcesses() {
    fake_cuda::Heal();
    fake_cuda::SetMachine({});
    fake_nccl::SetLibrary({});
  }
  ~SeveralProcesses() override {
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
    EXPECT_EQ(fake_nccl::HeldRanks(), 0);
  }
};

TEST_P(SeveralProcesses, GiveTheBitsOfOne) {
  const uint32_t size = GetParam();
  Layers layers(size, 3, 64, /*split=*/true);
  PlanData data = layers.mesh.data;
  FakeGpu gpu(&data);
  Together(size, [&](Processes& self) {
    Own own;
    const Status opened = own.Open(data, self, self.rank() % 2);
    ASSERT_TRUE(opened.ok()) << opened.message();
    std::vector<float> out(64);
    Output output = layers.outputs[self.rank()];
    output.data = out.data();
    for (int run = 0; run < 3; ++run) {
      out.assign(64, -1);
      const Status ran = own.session.Run(0, layers.inputs, std::vector<Output>{output});
      ASSERT_TRUE(ran.ok()) << ran.message();
      for (size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], layers.expected[i]);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Processes, SeveralProcesses, testing::Values(2u, 4u),
                         [](const auto& info) { return std::to_string(info.param); });

using TwoProcesses = SeveralProcesses;

TEST_F(TwoProcesses, OneThatDoesNotComeIsNamedWhileItIsWaitedFor) {
  Layers layers(2, 2, 64);
  PlanData data = layers.mesh.data;
  FakeGpu gpu(&data);
  Together(2, [&](Processes& self) {
    Own own;
    const Status opened = own.Open(data, self, self.rank() % 2);
    ASSERT_TRUE(opened.ok()) << opened.message();
    if (self.rank() == 1) return;  // this process ends instead of running
    const auto start = std::chrono::steady_clock::now();
    std::vector<float> out(64);
    Output output = layers.outputs[0];
    output.data = out.data();
    const Status ran = own.session.Run(0, layers.inputs, std::vector<Output>{output});
    EXPECT_EQ(ran.code(), Code::kAborted);
    EXPECT_NE(std::string(ran.message()).find("sync point 0"), std::string::npos) << ran.message();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  });
}

// The processes begin runs of two sessions in different orders, as threads may do. The sessions are never
// mixed up.
TEST_F(TwoProcesses, SessionsInAnotherOrderAreReportedInTheWatchdogsTime) {
  Layers layers(2, 2, 64), other(2, 2, 64, false, 9);
  PlanData data = layers.mesh.data;
  FakeGpu gpu(&data);
  Together(2, [&](Processes& self) {
    Own own;
    const Status opened = own.Open(data, self, self.rank() % 2);
    ASSERT_TRUE(opened.ok()) << opened.message();
    SessionOptions options;
    options.watchdog_ns = 500'000'000;
    Result<Plan> plan = Plan::FromData(data, {});
    ASSERT_TRUE(plan.ok());
    Result<Session> second = Session::Create(own.runtime, *plan, options);
    Result<Session> third = Session::Create(own.runtime, *plan, options);
    ASSERT_TRUE(second.ok() && third.ok());
    const bool first = self.rank() == 0;
    const Layers& mine = first ? layers : other;
    std::vector<float> out(64);
    Output output = mine.outputs[self.rank()];
    output.data = out.data();
    const Status ran = (first ? *second : *third).Run(0, mine.inputs, std::vector<Output>{output});
    EXPECT_EQ(ran.code(), Code::kAborted) << ran.message();
    EXPECT_NE(std::string(ran.message()).find("no progress for "), std::string::npos) << ran.message();
  });
}

// Two ranks of different processes on one GPU, with a library or environment that does not allow it.
TEST_F(TwoProcesses, OnOneGpuAreAskedForWhatThatTakes) {
  Layers layers(2, 1, 64);
  PlanData data = layers.mesh.data;
  FakeGpu gpu(&data);
  fake_nccl::Library old;
  old.version = 22809;
  fake_nccl::SetLibrary(old);
  Together(2, [&](Processes& self) {
    Own own;
    const Status opened = own.Open(data, self, 0);
    EXPECT_EQ(opened.code(), Code::kUnsupported);
    EXPECT_NE(std::string(opened.message()).find("takes NCCL 2.30"), std::string::npos) << opened.message();
  });
  fake_nccl::SetLibrary({});
}

}  // namespace
}  // namespace rondo
