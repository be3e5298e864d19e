// Every call to NCCL in a session with collectives of every kind fails once, at once or through its later
// state: there is a clean error in bounded time, and nothing stays behind. Ranks have GPUs of their own, or
// share one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/collectives/mesh_plan.h"
#include "tests/cuda/fake/fake_nccl.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/says.h"

namespace rondo {
namespace {

constexpr uint32_t kRanks = 2;
constexpr int64_t kElements = 32;
constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce,     CollectiveOp::kAllGather,
                                 CollectiveOp::kReduceScatter, CollectiveOp::kBroadcast,
                                 CollectiveOp::kSend,          CollectiveOp::kAllToAll};

// One collective of each op, from an input to an output on each rank.
void MakeEveryOp(MeshPlan* mesh) {
  for (CollectiveOp op : kOps)
    mesh->AddSyncPoint(op, DType::kF32, kElements * 4, 0, mesh->AllDevices(), Name(op));
  const uint32_t add = mesh->AddKernel(kElements);
  for (uint32_t d = 0; d < kRanks; ++d) {
    const std::string number = std::to_string(d);
    const uint32_t in = mesh->Add(BufferKind::kInput, d, "in" + number, kRanks * kElements);
    const uint32_t twice = mesh->Add(BufferKind::kOutput, d, "twice" + number, kElements);
    mesh->Launch(d, add, {in, in, twice});
    for (uint32_t i = 0; i < std::size(kOps); ++i) {
      const bool takes = kOps[i] != CollectiveOp::kSend || d != 0;
      const int64_t elements = kOps[i] == CollectiveOp::kAllGather ? kRanks * kElements : kElements;
      const uint32_t out = takes ? mesh->Add(BufferKind::kOutput, d, Name(kOps[i]) + number, elements) : in;
      mesh->Start(d, i, {in, 0}, {out, 0});
      mesh->Wait(d, i);
    }
  }
  mesh->Finish();
}

// Makes a driver and a session, runs once by graphs and once step by step, and destroys everything.
Status Life(const PlanData& data, const std::vector<uint32_t>& devices) {
  FakeSession session;
  RONDO_RETURN_IF_ERROR(session.Open(data, {}, nullptr, 1, devices));
  for (const bool stepwise : {false, true}) {
    Tensors tensors(data, 0);
    RunOptions options;
    options.stepwise = stepwise;
    RONDO_RETURN_IF_ERROR(session.sessions[0].Run(0, tensors.inputs, tensors.outputs, options));
  }
  return Status::Ok();
}

TEST(NcclWalk, EveryCallFailsOnce) {
  fake_cuda::Heal();
  fake_cuda::SetMachine({});
  fake_nccl::SetLibrary({});
  MeshPlan mesh(kRanks);
  MakeEveryOp(&mesh);
  PlanData data = mesh.data;
  const FakeGpu gpu(&data);
  for (const std::vector<uint32_t>& devices : {std::vector<uint32_t>{0, 1}, {0, 0}}) {
    for (const bool at_once : {true, false}) {
      uint64_t points = 0;
      double longest = 0;
      for (;; ++points) {
        fake_nccl::Arm(points, at_once);
        const auto start = std::chrono::steady_clock::now();
        const Status status = Life(data, devices);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        const fake_nccl::Count count = fake_nccl::Disarm();
        longest = std::max(longest, took.count());
        ASSERT_EQ(fake_nccl::HeldRanks(), 0) << count.failed << ", call " << points;
        ASSERT_EQ(fake_cuda::Held(), fake_cuda::Balance()) << count.failed << ", call " << points;
        EXPECT_EQ(status.ok(), !count.fired)
            << count.failed << ", call " << points << ": " << status.message();
        if (!count.fired) break;
        const std::string message = status.message();
        EXPECT_TRUE(message.find("nccl") != message.npos || message.find("NCCL") != message.npos) << message;
        EXPECT_FALSE(NamesAStepTwice(message)) << message;
      }
      std::printf("ranks on GPUs %u and %u: %llu calls failed %s, at most %.3f s\n", devices[0], devices[1],
                  static_cast<unsigned long long>(points), at_once ? "at once" : "later", longest);
      EXPECT_GT(points, 40u);
      EXPECT_LT(longest, 5);
    }
  }
}

}  // namespace
}  // namespace rondo
