// Several of a plan's devices on one GPU, through the cuda driver and NCCL: their memories and ranks are
// separate, and NCCL gets no call on which it crashes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectives/mesh.h"
#include "tests/cuda/fake/fake_nccl.h"
#include "tests/cuda/fake/fake_session.h"

namespace rondo {
namespace {

constexpr char kShare[] = "NCCL_MULTI_RANK_GPU_ENABLE";

// A plan of `ranks` devices on the fake's GPUs, each rank on one of `devices`.
class SharedGpus : public testing::Test {
 protected:
  SharedGpus() {
    fake_cuda::Heal();  // earlier tests may have ended contexts
    fake_cuda::SetMachine({});
    fake_nccl::SetLibrary({});
  }
  ~SharedGpus() override {
    fake_nccl::SetLibrary({});
    fake_cuda::SetMachine({});
    session_.Close();
    gpu_.reset();
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
    EXPECT_EQ(fake_nccl::HeldRanks(), 0);
  }

  Status Open(uint32_t ranks, const std::vector<uint32_t>& devices, int sessions = 1, double patience = 120) {
    session_.Close();
    gpu_.reset();
    layers_ = std::make_unique<Layers>(ranks, 3, 64, /*split=*/true);
    data_ = layers_->mesh.data;
    gpu_ = std::make_unique<FakeGpu>(&data_);
    session_.connect_seconds = patience;
    return session_.Open(data_, {}, nullptr, sessions, devices);
  }

  std::unique_ptr<Layers> layers_;
  PlanData data_;
  std::unique_ptr<FakeGpu> gpu_;
  FakeSession session_;
};

TEST_F(SharedGpus, GiveTheSameBitsAsDevicesOfTheirOwn) {
  for (const std::vector<uint32_t>& devices :
       {std::vector<uint32_t>{0, 0}, {0, 0, 0, 0}, {1, 0, 1, 0}, {0, 0, 0, 0, 0, 0, 0, 0}}) {
    const Status opened = Open(static_cast<uint32_t>(devices.size()), devices);
    ASSERT_TRUE(opened.ok()) << opened.message();
    for (int run = 0; run < 3; ++run) layers_->ExpectRight(&session_.sessions[0]);
    RunOptions stepwise;
    stepwise.stepwise = true;
    layers_->ExpectRight(&session_.sessions[0], stepwise);
  }
}

// A GPU has few queues, which its ranks' streams share. Waiting work in a queue may block a rank that others
// wait for.
TEST_F(SharedGpus, NothingIsQueuedBehindAGraph) {
  ASSERT_TRUE(Open(4, {0, 0, 0, 0}).ok());
  layers_->ExpectRight(&session_.sessions[0]);
  uint64_t before = fake_cuda::CountQueued();
  for (int run = 0; run < 3; ++run) layers_->ExpectRight(&session_.sessions[0]);
  EXPECT_EQ(fake_cuda::CountQueued(), before);
  ASSERT_TRUE(Open(2, {0, 1}).ok());  // each rank has its own GPU, so nothing must wait
  before = fake_cuda::CountQueued();
  layers_->ExpectRight(&session_.sessions[0]);
  EXPECT_GT(fake_cuda::CountQueued(), before);
}

TEST_F(SharedGpus, HaveMemoriesOfTheirOwn) {
  ASSERT_TRUE(Open(4, {0, 0, 0, 0}).ok());
  const Session& session = session_.sessions[0];
  for (uint32_t d = 0; d < 4; ++d) {
    for (uint32_t other = 0; other < d; ++other) {
      const DeviceRegion a = session.arena(d), b = session.arena(other);
      EXPECT_TRUE(a.address + a.bytes <= b.address || b.address + b.bytes <= a.address);
      EXPECT_EQ(session.device(d), session.device(other));
    }
  }
}

TEST_F(SharedGpus, TwoSessionsFromTwoThreads) {
  ASSERT_TRUE(Open(4, {0, 0, 0, 0}, 2).ok());
  Layers other(4, 3, 64, /*split=*/true);
  std::thread thread([&] {
    for (int run = 0; run < 100; ++run) other.ExpectRight(&session_.sessions[1]);
  });
  for (int run = 0; run < 100; ++run) layers_->ExpectRight(&session_.sessions[0]);
  thread.join();
  EXPECT_EQ(fake_nccl::HeldRanks(), 4);  // both sessions share the communicators
}

// With two branches in each rank's graph, some ranks would have no queue left.
TEST_F(SharedGpus, EightRanksOfSeveralSessionsNeedAQueueEach) {
  fake_cuda::Machine machine;
  machine.queues = 15;
  fake_cuda::SetMachine(machine);
  SessionOptions options;
  options.watchdog_ns = 5'000'000'000;
  ASSERT_TRUE(Open(8, std::vector<uint32_t>(8, 0), 0).ok());
  Result<Session> first = Session::Create(session_.runtime, session_.plan, options),
                  second = Session::Create(session_.runtime, session_.plan, options);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE(second.ok()) << second.status().message();
  Layers other(8, 3, 64, /*split=*/true);
  std::thread thread([&] {
    for (int run = 0; run < 50 && !HasFailure(); ++run) other.ExpectRight(&*second);
  });
  for (int run = 0; run < 50 && !HasFailure(); ++run) layers_->ExpectRight(&*first);
  thread.join();
}

// Memory is allocated and freed, and code loaded, only while no rank waits for another. CUDA may hang
// otherwise.
TEST_F(SharedGpus, SessionsThatComeAndGoHoldNoRankUp) {
  for (const std::vector<uint32_t>& devices : {std::vector<uint32_t>{0, 0, 0, 0}, {0, 1, 0, 1}}) {
    ASSERT_TRUE(Open(4, devices).ok());
    const uint64_t before = fake_cuda::CountStalls();
    std::atomic<bool> done{false};
    std::thread runs([&] {
      while (!done) layers_->ExpectRight(&session_.sessions[0]);
    });
    Layers other(4, 2, 64, /*split=*/true);
    PlanData data = other.mesh.data;
    const FakeGpu gpu(&data);
    Result<Plan> plan = Plan::FromData(data, {});
    for (int i = 0; i < 50; ++i) {
      Result<Session> session = Session::Create(session_.runtime, *plan);
      ASSERT_TRUE(session.ok()) << session.status().message();
      other.ExpectRight(&*session);
    }
    done = true;
    runs.join();
    EXPECT_EQ(fake_cuda::CountStalls(), before);
  }
}

// Devices 0 and 1 share one communicator, 2 and 3 another, and all four a third.
TEST_F(SharedGpus, GroupsOfOneGpuAreToldApart) {
  constexpr int64_t kElements = 64;
  constexpr uint64_t kBytes = kElements * 4;
  MeshPlan mesh(4);
  const uint32_t pairs[] = {
      mesh.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, kBytes, 0, {0, 1}, "low"),
      mesh.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, kBytes, 1, {2, 3}, "high")};
  const uint32_t all =
      mesh.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, kBytes, 2, mesh.AllDevices(), "all");
  const uint32_t add = mesh.AddKernel(kElements);
  for (uint32_t d = 0; d < 4; ++d) {
    const std::string number = std::to_string(d);
    const uint32_t in = mesh.Add(BufferKind::kInput, d, "in" + number, kElements),
                   pair = mesh.Add(BufferKind::kTemporary, d, "pair" + number, kElements),
                   sum = mesh.Add(BufferKind::kTemporary, d, "sum" + number, kElements),
                   out = mesh.Add(BufferKind::kOutput, d, "out" + number, kElements);
    mesh.Start(d, pairs[d / 2], {in, 0}, {pair, 0});
    mesh.Wait(d, pairs[d / 2]);
    mesh.Start(d, all, {in, 0}, {sum, 0});
    mesh.Wait(d, all);
    mesh.Launch(d, add, {pair, sum, out});
  }
  mesh.Finish();
  PlanData data = mesh.data;
  const FakeGpu gpu(&data);
  FakeSession session;
  const uint32_t devices[] = {0, 0, 0, 0};
  const Status opened = session.Open(data, {}, nullptr, 1, devices);
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(fake_nccl::HeldRanks(), 2 + 2 + 4);
  Tensors tensors(data, 0);
  for (uint32_t d = 0; d < 4; ++d) {
    auto* values = reinterpret_cast<float*>(tensors.bytes[d].data());
    for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(d == 0 ? 1 : 10 * d);
  }
  for (int run = 0; run < 3; ++run) {
    const Status ran = session.sessions[0].Run(0, tensors.inputs, tensors.outputs);
    ASSERT_TRUE(ran.ok()) << ran.message();
    for (uint32_t d = 0; d < 4; ++d) {
      const auto* values = reinterpret_cast<const float*>(tensors.bytes[4 + d].data());
      EXPECT_EQ(values[kElements - 1], (d < 2 ? 11 : 50) + 61) << "device " << d;
    }
  }
}

TEST_F(SharedGpus, TakeANewerNccl) {
  for (const auto& [version, name] : {std::pair(22809, "2.28.9"), {22907, "2.29.7"}, {22930, "2.29.30"}}) {
    fake_nccl::Library library;
    library.version = version;
    fake_nccl::SetLibrary(library);
    const Status refused = Open(2, {0, 0});
    EXPECT_SAYS(refused, "ranks 0 and 1 are both on GPU 0, which takes NCCL 2.30 or newer");
    EXPECT_SAYS(refused, name);
    EXPECT_SAYS(refused, "libnccl.so.2 is ");
    EXPECT_SAYS(refused, "first in --library-path");
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    const Status apart = Open(2, {1, 0});
    EXPECT_TRUE(apart.ok()) << apart.message();
  }
  fake_nccl::Library library;
  library.version = nccl::Version(2, 30);
  fake_nccl::SetLibrary(library);
  const Status opened = Open(2, {1, 1});
  EXPECT_TRUE(opened.ok()) << opened.message();
}

// Without the environment variable NCCL would crash, and so does the fake.
TEST_F(SharedGpus, AskTheEnvironmentBeforeNccl) {
  const char* was = std::getenv(kShare);
  for (const char* value : {static_cast<const char*>(nullptr), "0", "no"}) {
    if (value == nullptr) {
      unsetenv(kShare);
    } else {
      setenv(kShare, value, 1);
    }
    const Status refused = Open(4, {0, 1, 1, 0});
    EXPECT_SAYS(refused, "ranks 1 and 2 are both on GPU 1");
    EXPECT_SAYS(refused, "NCCL_MULTI_RANK_GPU_ENABLE to 1 in its environment");
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  }
  setenv(kShare, was != nullptr ? was : "1", 1);
  const Status opened = Open(4, {0, 1, 1, 0});
  EXPECT_TRUE(opened.ok()) << opened.message();
}

TEST_F(SharedGpus, AreConnectedForGraphsAloneWithFewBlocks) {
  ASSERT_TRUE(Open(2, {0, 0}).ok());
  EXPECT_EQ(fake_nccl::LastConfig().most_blocks, 2);
  EXPECT_EQ(fake_nccl::LastConfig().graph_usage, nccl::kGraphsOnly);
  EXPECT_EQ(fake_nccl::LastConfig().blocking, 0);
  ASSERT_TRUE(Open(2, {0, 1}).ok());
  EXPECT_EQ(fake_nccl::LastConfig().most_blocks, nccl::kUndefined);
  EXPECT_EQ(fake_nccl::LastConfig().graph_usage, nccl::kGraphsOnly);
}

TEST_F(SharedGpus, RanksThatTakeTheirTimeAreWaitedFor) {
  fake_nccl::Library library;
  library.late_connecting = library.late_enqueueing = 50;
  fake_nccl::SetLibrary(library);
  ASSERT_TRUE(Open(2, {0, 0}).ok());
  layers_->ExpectRight(&session_.sessions[0]);
}

TEST_F(SharedGpus, ARankThatNeverConnectsIsAnErrorInTime) {
  fake_nccl::Library library;
  library.late_connecting = ~0u;
  fake_nccl::SetLibrary(library);
  const Status refused = Open(2, {0, 0}, 1, 0.05);
  EXPECT_SAYS(refused,
              "a communicator of 2 ranks: rank 0: connecting with NCCL has not come to an end within 0.05 s");
}

TEST_F(SharedGpus, ACollectiveThatIsNeverEnqueuedEndsCreateInTime) {
  ASSERT_TRUE(Open(4, {0, 0, 0, 0}).ok());
  fake_nccl::Library library;
  library.late_enqueueing = ~0u;
  fake_nccl::SetLibrary(library);
  SessionOptions options;
  options.timeout_ns = 50000000;
  const Status late = Session::Create(session_.runtime, session_.plan, options).status();
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late.message();
  fake_nccl::SetLibrary({});
  Result<Session> session = Session::Create(session_.runtime, session_.plan);
  ASSERT_TRUE(session.ok()) << session.status().message();
  layers_->ExpectRight(&*session);
}

TEST_F(SharedGpus, ACollectiveThatNeverEndsEndsTheRunInTime) {
  ASSERT_TRUE(Open(4, {0, 0, 0, 0}).ok());
  fake_nccl::Library library;
  library.never_ends = true;
  fake_nccl::SetLibrary(library);
  RunOptions options;
  options.timeout_ns = 50000000;
  bool right = false;
  const Status late = layers_->Run(&session_.sessions[0], &right, options);
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late.message();
  fake_nccl::SetLibrary({});
  EXPECT_SAYS(layers_->Run(&session_.sessions[0], &right), "make the session anew");
  Result<Session> session = Session::Create(session_.runtime, session_.plan);
  ASSERT_TRUE(session.ok()) << session.status().message();
  layers_->ExpectRight(&*session);
}

}  // namespace
}  // namespace rondo
