// The collectives that the cuda driver computes by small kernels, and the errors when these fail.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "drivers/cuda/peer_collectives/choose.h"
#include "tests/collectives/mesh.h"
#include "tests/cuda/fake/fake_nccl.h"
#include "tests/cuda/fake/fake_session.h"

namespace rondo {
namespace {

using cuda::ChooseSmall;
using cuda::SmallKernel;

constexpr uint32_t kDevices[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};

SyncPoint Point(CollectiveOp op, uint64_t bytes, size_t ranks, DType dtype = DType::kBF16) {
  SyncPoint point;
  point.op = op;
  point.dtype = dtype;
  point.bytes = bytes;
  point.participants = Span<const uint32_t>(kDevices, ranks);
  return point;
}

TEST(ChooseSmall, BySizeAndRanks) {
  const auto automatic = [](CollectiveOp op, uint64_t bytes, size_t ranks) {
    return ChooseSmall(CollectiveKernels::kAuto, Point(op, bytes, ranks), 1);
  };
  for (size_t ranks : {2, 4, 8}) {
    EXPECT_EQ(automatic(CollectiveOp::kAllReduce, 4 << 10, ranks), SmallKernel::kOneShot);
    EXPECT_EQ(automatic(CollectiveOp::kAllReduce, 16 << 20, ranks), SmallKernel::kNone);
    EXPECT_EQ(automatic(CollectiveOp::kAllGather, 4 << 10, ranks), SmallKernel::kAllGather);
    EXPECT_EQ(automatic(CollectiveOp::kReduceScatter, 4 << 10, ranks), SmallKernel::kReduceScatter);
  }
  EXPECT_EQ(automatic(CollectiveOp::kAllReduce, 256 << 10, 8), SmallKernel::kTwoShot);
  // From the size on at which NCCL is faster, it stays faster.
  for (size_t ranks : {2, 4, 8}) {
    bool small = true;
    for (uint64_t bytes = 64; bytes <= 64 << 20; bytes *= 2) {
      const bool now = automatic(CollectiveOp::kAllReduce, bytes, ranks) != SmallKernel::kNone;
      EXPECT_TRUE(small || !now) << bytes << " bytes, " << ranks << " ranks";
      small = now;
    }
  }
}

// By the measurements in tools/bench/results/peer-collectives.md.
TEST(ChooseSmall, ByHowManyRanksShareAGpu) {
  struct Case {
    uint64_t kib;
    size_t ranks;
    uint32_t sharing;
    bool small;
  };
  for (const Case& c : {Case{1024, 2, 1, true},
                        {4096, 2, 1, false},
                        {1024, 8, 1, true},
                        {4096, 8, 1, false},
                        {4096, 2, 2, true},
                        {8192, 2, 2, false},
                        {1024, 4, 2, true},
                        {4096, 4, 2, false},
                        {1024, 8, 4, true},
                        {1024, 4, 4, true},
                        {4096, 4, 4, false},
                        {4096, 8, 4, false},
                        {512, 8, 8, true},
                        {1024, 8, 8, false}}) {
    const SyncPoint point = Point(CollectiveOp::kAllReduce, c.kib << 10, c.ranks);
    EXPECT_EQ(ChooseSmall(CollectiveKernels::kAuto, point, c.sharing) != SmallKernel::kNone, c.small)
        << c.kib << " KiB among " << c.ranks << " ranks, " << c.sharing << " on a GPU";
  }
}

TEST(ChooseSmall, AsMeasuredWhereItWas) {
  const SmallUpTo measured[] = {{CollectiveOp::kAllReduce, 2, 1 << 20}, {CollectiveOp::kAllReduce, 4, 0}};
  const auto automatic = [&](CollectiveOp op, uint64_t bytes, size_t ranks, uint32_t sharing = 1) {
    return ChooseSmall(CollectiveKernels::kAuto, Point(op, bytes, ranks), sharing, measured) !=
           SmallKernel::kNone;
  };
  EXPECT_TRUE(automatic(CollectiveOp::kAllReduce, 1 << 20, 2));
  EXPECT_FALSE(automatic(CollectiveOp::kAllReduce, (1 << 20) + 16, 2));
  EXPECT_FALSE(automatic(CollectiveOp::kAllReduce, 4 << 10, 4));
  // Other cases, and ranks that share a GPU, go by the estimate.
  EXPECT_TRUE(automatic(CollectiveOp::kAllReduce, 4 << 10, 8));
  EXPECT_TRUE(automatic(CollectiveOp::kAllGather, 4 << 10, 4));
  EXPECT_TRUE(automatic(CollectiveOp::kAllReduce, 4 << 10, 4, 4));
  EXPECT_TRUE(automatic(CollectiveOp::kAllReduce, 2 << 20, 2, 2));
  // An explicit choice comes before measurements.
  EXPECT_NE(ChooseSmall(CollectiveKernels::kSmall, Point(CollectiveOp::kAllReduce, 4 << 10, 4), 1, measured),
            SmallKernel::kNone);
  EXPECT_EQ(ChooseSmall(CollectiveKernels::kNccl, Point(CollectiveOp::kAllReduce, 4 << 10, 2), 1, measured),
            SmallKernel::kNone);
}

TEST(ChooseSmall, WhatIsAskedForAndCanBe) {
  const auto asked = [](CollectiveKernels kernels, const SyncPoint& point) {
    return ChooseSmall(kernels, point, 1);
  };
  const SyncPoint large = Point(CollectiveOp::kAllReduce, 4 << 20, 2);
  EXPECT_EQ(asked(CollectiveKernels::kNccl, Point(CollectiveOp::kAllReduce, 64, 2)), SmallKernel::kNone);
  EXPECT_EQ(asked(CollectiveKernels::kAuto, large), SmallKernel::kNone);
  EXPECT_NE(asked(CollectiveKernels::kSmall, large), SmallKernel::kNone);
  // 9 packs do not give each of 8 ranks a part. A rank without a part could not know that all have begun, so
  // one shot is used.
  EXPECT_EQ(asked(CollectiveKernels::kSmall, Point(CollectiveOp::kAllReduce, 72, 8)), SmallKernel::kOneShot);
  for (const SyncPoint& never :
       {Point(CollectiveOp::kAllReduce, 64, 2, DType::kI32),
        Point(CollectiveOp::kReduceScatter, 64, 2, DType::kF64), Point(CollectiveOp::kBroadcast, 64, 2),
        Point(CollectiveOp::kSend, 64, 2), Point(CollectiveOp::kAllToAll, 64, 2),
        Point(CollectiveOp::kAllReduce, 64, 9), Point(CollectiveOp::kAllReduce, 0, 2),
        Point(CollectiveOp::kAllReduce, ~uint64_t{7}, 2),
        Point(CollectiveOp::kAllGather, cuda::kMostInbox, 2)}) {
    EXPECT_EQ(asked(CollectiveKernels::kSmall, never), SmallKernel::kNone) << Name(never.op);
    EXPECT_FALSE(cuda::CanBeSmall(never));
  }
  EXPECT_EQ(asked(CollectiveKernels::kSmall, Point(CollectiveOp::kAllGather, 64, 2, DType::kI64)),
            SmallKernel::kAllGather);
}

class SmallCollectives : public testing::Test {
 protected:
  SmallCollectives() {
    fake_cuda::Heal();
    fake_cuda::SetMachine({});
    session_.collectives = CollectiveKernels::kSmall;
  }
  ~SmallCollectives() override {
    SetSmallLate(false);
    fake_cuda::SetMachine({});
    session_.Close();
    gpu_.reset();
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
    EXPECT_EQ(fake_nccl::HeldRanks(), 0);
  }
  Status Open(uint32_t ranks, const std::vector<uint32_t>& devices, int sessions = 1, int64_t elements = 64) {
    session_.Close();
    gpu_.reset();
    layers_ = std::make_unique<Layers>(ranks, elements > 64 ? 1 : 3, elements, /*split=*/true);
    data_ = layers_->mesh.data;
    gpu_ = std::make_unique<FakeGpu>(&data_);
    return session_.Open(data_, {}, nullptr, sessions, devices);
  }

  std::unique_ptr<Layers> layers_;
  PlanData data_;
  std::unique_ptr<FakeGpu> gpu_;
  FakeSession session_;
};

TEST_F(SmallCollectives, GiveTheBitsOfVirtualDevicesWithoutNccl) {
  for (const std::vector<uint32_t>& devices :
       {std::vector<uint32_t>{0, 1}, {0, 0}, {0, 0, 0, 0}, {1, 0, 1, 0}, {0, 0, 0, 0, 0, 0, 0, 0}}) {
    const Status opened = Open(static_cast<uint32_t>(devices.size()), devices);
    ASSERT_TRUE(opened.ok()) << opened.message();
    EXPECT_EQ(fake_nccl::HeldRanks(), 0);
    const uint64_t before = CountSmallCollectives();
    for (int run = 0; run < 3; ++run) layers_->ExpectRight(&session_.sessions[0]);
    RunOptions stepwise;
    stepwise.stepwise = true;
    layers_->ExpectRight(&session_.sessions[0], stepwise);
    EXPECT_GT(CountSmallCollectives(), before);
  }
}

TEST_F(SmallCollectives, GpusThatDoNotReachEachOtherHaveNccl) {
  for (const bool arrive : {false, true}) {
    fake_cuda::Machine machine;
    machine.peers = !arrive;
    machine.peers_arrive = arrive;
    fake_cuda::SetMachine(machine);
    session_.collectives = CollectiveKernels::kSmall;
    const Status refused = Open(2, {1, 0});
    EXPECT_SAYS(refused,
                "small collectives: GPU 1 (Fake GPU) cannot write to the memory of GPU 0 (Fake GPU): ");
    EXPECT_SAYS(refused, arrive
                             ? "the NVIDIA driver says so"
                             : "says that it can, but of 256 packs that were written, pack 0 did not arrive");
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    session_.collectives = CollectiveKernels::kAuto;
    const Status opened = Open(2, {1, 0});
    ASSERT_TRUE(opened.ok()) << opened.message();
    EXPECT_NE(fake_nccl::HeldRanks(), 0);
    const uint64_t before = CountSmallCollectives();
    layers_->ExpectRight(&session_.sessions[0]);
    EXPECT_EQ(CountSmallCollectives(), before);
    EXPECT_TRUE(Open(2, {0, 0}).ok());  // a GPU can access its own memory
    EXPECT_EQ(fake_nccl::HeldRanks(), 0);
  }
}

// By estimate NCCL would be faster, but this NCCL cannot have both ranks on one GPU.
TEST_F(SmallCollectives, WhereNcclCannotBeHadTheyDoAllTheyCan) {
  constexpr int64_t kElements = 5 << 18;  // 5 MiB
  session_.collectives = CollectiveKernels::kAuto;
  for (const bool old : {false, true}) {
    fake_nccl::Library library;
    if (old) library.version = 22809;
    fake_nccl::SetLibrary(library);
    const Status opened = Open(2, {0, 0}, 1, kElements);
    ASSERT_TRUE(opened.ok()) << opened.message();
    EXPECT_EQ(fake_nccl::HeldRanks() == 0, old);
    layers_->ExpectRight(&session_.sessions[0]);
  }
  fake_nccl::SetLibrary({});
}

TEST_F(SmallCollectives, OneThatWaitsTooLongFailsTheRunAndSaysForWhom) {
  ASSERT_TRUE(Open(2, {0, 1}).ok());
  SetSmallLate(true);
  bool right = false;
  const Status late = layers_->Run(&session_.sessions[0], &right);
  SetSmallLate(false);
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded);
  EXPECT_SAYS(late, "the collective has waited 60 s for rank 1");
  EXPECT_SAYS(layers_->Run(&session_.sessions[0], &right), "make the session anew");
  Result<Session> again = Session::Create(session_.runtime, session_.plan);
  ASSERT_TRUE(again.ok()) << again.status().message();
  layers_->ExpectRight(&*again);
}

// Fails each call that can fail while a session is made and used, once.
TEST_F(SmallCollectives, EveryCallThatFailsIsAnErrorAndLeavesNothing) {
  for (uint64_t fail = 0;; ++fail) {
    fake_cuda::Heal();
    fake_cuda::Arm(fail, 2);
    const Status opened = Open(2, {0, 1});
    bool right = false;
    const Status ran = opened.ok() ? layers_->Run(&session_.sessions[0], &right) : opened;
    const fake_cuda::Count count = fake_cuda::Disarm();
    if (!count.fired) {
      EXPECT_TRUE(ran.ok() && right) << ran.message();
      break;
    }
    EXPECT_TRUE(!ran.ok() || right) << count.failed;
    session_.Close();
    gpu_.reset();
    ASSERT_EQ(fake_cuda::Held(), fake_cuda::Balance()) << count.failed;
  }
}

}  // namespace
}  // namespace rondo
