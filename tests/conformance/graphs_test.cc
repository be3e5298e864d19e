// Recorded graphs, and their replays.
#include "tests/conformance/conformance.h"
#include "tests/host/kernel_zoo.h"

namespace rondo::test {
namespace {

class Graphs : public Conformance {
 protected:
  Graphs() : kernels_(kElements) {}
  void SetUp() override {
    Conformance::SetUp();
    if (device_ == nullptr) return;
    module_ = Load(kernels_.plan);
    ASSERT_NE(module_, nullptr);
    for (DeviceAddress* block : {&x_, &y_, &z_}) *block = Put(Counting(1));
  }
  // Enqueues y = x + x (step 3), z = x * y (step 4) and the copy x = z.
  void Chain(Stream* stream = nullptr) {
    Launch(module_, SimpleKernels::kAdd, {x_, x_, y_}, 3, stream);
    Launch(module_, SimpleKernels::kMul, {x_, y_, z_}, 4, stream);
    ExpectOk(device_->Copy(x_, z_, kBytes, stream == nullptr ? stream_ : stream));
  }
  SimpleKernels kernels_;
  Module* module_ = nullptr;
  DeviceAddress x_ = 0, y_ = 0, z_ = 0;
};
CONFORMANCE_SUITE(Graphs);

TEST_P(Graphs, RecordingRunsNothing) {
  Record([&] {
    Chain();
    ExpectOk(device_->Fill(x_, 0xff, kBytes, stream_));
  });
  for (DeviceAddress block : {x_, y_, z_}) EXPECT_EQ(Get(block), Counting(1));
}

TEST_P(Graphs, NodesAreTheRecordedStepsInTheirOrder) {
  Graph* graph = Record([&] { Chain(); });
  ASSERT_NE(graph, nullptr);
  const Span<const GraphNode> nodes = device_->Nodes(graph);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].step, 3u);
  EXPECT_EQ(nodes[0].kind, StepKind::kLaunch);
  EXPECT_EQ(nodes[1].step, 4u);
  EXPECT_EQ(nodes[1].kind, StepKind::kLaunch);
  EXPECT_EQ(nodes[2].kind, StepKind::kCopy);
}

TEST_P(Graphs, ReplaysAreDirectLaunchesToTheBit) {
  Graph* graph = Record([&] { Chain(); });
  ASSERT_NE(graph, nullptr);
  std::vector<Floats> direct;
  for (int round = 0; round < 30; ++round) {  // the values soon become infinite
    Chain();
    direct.push_back(Get(x_));
    if (round % 5 == 4) Write(x_, Counting(0.01f));
  }
  Write(x_, Counting(1));
  for (int round = 0; round < 30; ++round) {
    Replay(graph);
    const Floats got = Get(x_);
    EXPECT_EQ(memcmp(got.data(), direct[static_cast<size_t>(round)].data(), kBytes), 0) << "replay " << round;
    if (round % 5 == 4) Write(x_, Counting(0.01f));
  }
}

TEST_P(Graphs, OfEverySkeletonReplayAsTheyRunToTheBit) {
  NEEDS(kEverySkeleton);
  Zoo zoo;
  Module* module = Load(zoo.plan);
  ASSERT_NE(module, nullptr);
  std::vector<std::vector<DeviceAddress>> addresses(zoo.memory.size());
  for (size_t k = 0; k < zoo.memory.size(); ++k) {
    for (auto& param : zoo.memory[k].params) addresses[k].push_back(Put(param));
  }
  auto launch = [&] {
    for (uint32_t k = 0; k < addresses.size(); ++k) Launch(module, k, addresses[k], k);
  };
  auto results = [&] {
    std::vector<std::vector<char>> all;
    for (size_t k = 0; k < addresses.size(); ++k) {
      for (size_t p = 0; p < addresses[k].size(); ++p)
        all.push_back(Get<char>(addresses[k][p], zoo.memory[k].params[p].size()));
    }
    return all;
  };
  launch();
  const auto direct = results();
  Graph* graph = Record(launch);
  ASSERT_NE(graph, nullptr);
  for (int round = 0; round < 3; ++round) {
    for (size_t k = 0; k < addresses.size(); ++k) Write(addresses[k].back(), zoo.memory[k].params.back());
    Replay(graph);
    EXPECT_TRUE(results() == direct) << "replay " << round;
  }
}

TEST_P(Graphs, AreLaunchedManyTimesBeforeAnybodyWaits) {
  Graph* graph = Record([&] {
    Launch(module_, SimpleKernels::kAdd, {x_, z_, y_});
    ExpectOk(device_->Copy(x_, y_, kBytes, stream_));
  });
  ASSERT_NE(graph, nullptr);
  Write(x_, Floats(kElements, 0));
  Write(z_, Floats(kElements, 1));
  for (int round = 0; round < 200; ++round) Replay(graph);
  EXPECT_EQ(Get(x_), Floats(kElements, 200));
}

TEST_P(Graphs, OfOneModuleDoNotMix) {
  const DeviceAddress u = Put(Floats(kElements, 1)), v = Take(kBytes);
  Graph* chain = Record([&] { Chain(); });
  Graph* twice = Record([&] {
    Launch(module_, SimpleKernels::kAdd, {u, u, v}, 9);
    ExpectOk(device_->Copy(u, v, kBytes, stream_));
  });
  ASSERT_TRUE(chain != nullptr && twice != nullptr);
  Write(x_, Floats(kElements, 1));  // 1, 2, 8, 128
  for (int round = 0; round < 3; ++round) {
    Replay(chain);
    Replay(twice);
  }
  EXPECT_EQ(Get(x_), Floats(kElements, 128));
  EXPECT_EQ(Get(u), Floats(kElements, 8));
  EXPECT_EQ(device_->Nodes(twice)[0].step, 9u);
}

TEST_P(Graphs, HoldTheFillsOfTheirRecording) {
  Graph* graph = Record([&] {
    ExpectOk(device_->Fill(x_, 0, 8, stream_));
    Launch(module_, SimpleKernels::kAdd, {x_, x_, y_});
  });
  ASSERT_NE(graph, nullptr);
  for (int round = 0; round < 2; ++round) {
    Write(x_, Counting(1));
    Replay(graph);
    Floats want = Counting(2);
    want[1] = 0;
    EXPECT_EQ(Get(y_), want);
  }
}

TEST_P(Graphs, OfNothingDoNothing) {
  Graph* graph = Record([] {});
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(device_->Nodes(graph).size(), 0u);
  Replay(graph);
  EXPECT_EQ(Get(x_), Counting(1));
}

TEST_P(Graphs, BeginAndEndInPairs) {
  EXPECT_FALSE(device_->EndRecord(stream_).ok());
  Graph* graph = Record([&] {
    EXPECT_EQ(device_->BeginRecord(stream_).code(), Code::kFailedPrecondition);
    Chain();
  });
  ASSERT_NE(graph, nullptr) << "the first recording goes on";
  EXPECT_EQ(device_->Nodes(graph).size(), 3u);
}

TEST_P(Graphs, TakeInStreamsThatWaitForThem) {
  NEEDS_OF_INFO(driver_->Info().max_streams > 1, "second stream");
  Stream* second = MakeStream();
  Event *fork = MakeEvent(), *join = MakeEvent();
  const DeviceAddress u = Put(Counting(3)), v = Take(kBytes), sum = Take(kBytes);
  Graph* graph = Record([&] {
    ExpectOk(device_->Record(fork, stream_));
    ExpectOk(device_->Wait(fork, second));
    Launch(module_, SimpleKernels::kAdd, {u, u, v}, 1, second);
    Launch(module_, SimpleKernels::kAdd, {x_, x_, y_}, 2);
    EXPECT_FALSE(device_->EndRecord(second).ok()) << "no recording began there";
    ExpectOk(device_->Record(join, second));
    ExpectOk(device_->Wait(join, stream_));
    Launch(module_, SimpleKernels::kAdd, {v, y_, sum}, 3);
  });
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(device_->Nodes(graph).size(), 3u);
  EXPECT_EQ(Get(y_), Counting(1)) << "nothing has run";
  for (int round = 0; round < 10; ++round) {
    for (DeviceAddress block : {v, y_, sum}) Write(block, Floats(kElements, -1));
    Replay(graph);
    EXPECT_EQ(Get(sum), Counting(8));
  }
  // The second stream runs independently again.
  Launch(module_, SimpleKernels::kMul, {x_, x_, z_}, 4, second);
  EXPECT_EQ(Get(z_, kElements, second)[3], 9);
}

TEST_P(Graphs, TellAFaultWithItsStepAndWorkAgain) {
  const DeviceAddress indices = Put(std::vector<int64_t>{0, 1, 2, 3}), out = Take(16);
  const DeviceAddress table = Put(Counting(2, SimpleKernels::kTable));
  Graph* graph = Record([&] {
    Chain();
    Launch(module_, SimpleKernels::kPick, {indices, table, out}, 17);
  });
  ASSERT_NE(graph, nullptr);
  for (int64_t last : {3, 10, 4, -5, 9}) {
    Write(indices, std::vector<int64_t>{0, 1, 2, last});
    Replay(graph);
    uint32_t step = kNone;
    const Status status = Synchronize(&step);
    if (last >= 0 && last < SimpleKernels::kTable) {
      ExpectOk(status);
      EXPECT_EQ(Get(out, 4)[3], 2 * static_cast<float>(last));
    } else {
      EXPECT_EQ(status.code(), Code::kOutOfRange) << status.message();
      EXPECT_EQ(step, 17u);
    }
  }
}

TEST_P(Graphs, UseOtherAddressesFromTheNextLaunchOn) {
  const DeviceAddress u = Put(Counting(5)), v = Take(kBytes), w = Take(kBytes);
  Graph* graph = Record([&] {
    Launch(module_, SimpleKernels::kAdd, {x_, x_, y_}, 1);
    ExpectOk(device_->Copy(z_, y_, kBytes, stream_));
  });
  ASSERT_NE(graph, nullptr);
  const std::vector<DeviceAddress> launched = {u, u, v}, copied = {v, w};
  if (!driver_->Info().rebinds) {
    EXPECT_EQ(device_->SetAddresses(graph, 0, launched).code(), Code::kUnsupported);
    GTEST_SKIP() << GetParam()->name() << ": its DriverInfo has no rebinding";
  }
  Replay(graph);  // the graph keeps its arguments, though they change before anybody waits
  ExpectOk(device_->SetAddresses(graph, 0, launched));
  ExpectOk(device_->SetAddresses(graph, 1, copied));
  Replay(graph);
  EXPECT_EQ(Get(z_), Counting(2));
  EXPECT_EQ(Get(v), Counting(10));
  EXPECT_EQ(Get(w), Counting(10));
  const std::vector<DeviceAddress> few = {u, v}, many = {u, u, v, v};
  for (const auto& wrong : {few, many}) EXPECT_FALSE(device_->SetAddresses(graph, 0, wrong).ok());
  for (const auto& wrong : {std::vector<DeviceAddress>{u}, launched})
    EXPECT_FALSE(device_->SetAddresses(graph, 1, wrong).ok());
  EXPECT_EQ(device_->SetAddresses(graph, 2, launched).code(), Code::kUnsupported) << "there is no such node";
  Replay(graph);
  EXPECT_EQ(Get(w), Counting(10));
}

}  // namespace
}  // namespace rondo::test
