// Sessions of a plan whose devices are in several processes, on the host driver; the processes are threads.
#include <atomic>
#include <chrono>
#include <string>

#include "core/sanitized.h"
#include "tests/how_many.h"
#include "tests/processes/own_session.h"

namespace rondo {
namespace {

using std::chrono::milliseconds;
constexpr uint64_t kWatchdogMs = kSanitized ? 3000 : 1000;

class SessionsTest : public testing::TestWithParam<uint32_t> {};

// Sizes below and above the limit at which an all-reduce is cut, and one that the ranks do not divide.
TEST_P(SessionsTest, GiveTheBitsOfOneProcess) {
  for (int64_t elements : {3, 1000, 20011}) {
    for (bool split : {false, true}) {
      TogetherOn(GetParam(), 3, elements, split, [&](Processes& self, Layers& layers) {
        Own own(self, layers);
        Result<Session> session = own.Make(layers.plan);
        ASSERT_TRUE(session.ok()) << session.status().message();
        for (uint32_t d = 0; d < self.size(); ++d) EXPECT_EQ(session->device(d) != nullptr, d == self.rank());
        for (int run = 0; run < 5; ++run) {
          RunOptions options;
          options.stepwise = run == 3;
          const Status status = session->Run(0, own.inputs, own.outputs, options);
          ASSERT_TRUE(status.ok()) << status.message();
          const float* got = static_cast<const float*>(own.outputs[0].data);
          for (int64_t i = 0; i < elements; ++i)
            ASSERT_EQ(got[i], layers.expected[static_cast<size_t>(i)]) << i;
        }
      });
    }
  }
}

// Each process passes only its own device's tensors, and gets only these.
TEST_P(SessionsTest, WantTheirOwnDevicesTensorsOnly) {
  TogetherOn(GetParam(), 1, 4, false, [&](Processes& self, Layers& layers) {
    Own own(self, layers);
    Result<Session> session = own.Make(layers.plan);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const std::vector<Input> needed = {layers.inputs[0], layers.inputs[1 + self.rank()]};
    EXPECT_TRUE(session->Run(0, needed, own.outputs).ok());
    const uint32_t other = (self.rank() + 1) % self.size();
    EXPECT_SAYS(session->Run(0, needed, std::vector<Output>{layers.outputs[other]}),
                "output \"out" + std::to_string(other) + "\" is on a device that another process has");
    EXPECT_SAYS(session->Run(0, std::vector<Input>{layers.inputs[0]}, own.outputs), "is missing");
    EXPECT_SAYS(session->Run(0, std::vector<Input>{needed[1]}, own.outputs), "input \"x\"");
    // After the caller's mistakes the session still works.
    EXPECT_TRUE(session->Run(0, needed, own.outputs).ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Processes, SessionsTest, testing::Values(2u, 4u),
                         [](const auto& info) { return std::to_string(info.param); });

TEST(RefusalTest, APlanForAnotherNumberOfDevicesIsToldToAll) {
  Together(2, [](Processes& self) {
    Layers two(2, 1, 4), three(3, 1, 4);
    Own own(self, two);
    const Status status = own.Make(self.rank() == 0 ? three.plan : two.plan).status();
    EXPECT_SAYS(status, self.rank() == 0 ? "the plan needs 3 devices; this runtime has 2"
                                         : "process 0: the plan needs 3 devices; this runtime has 2");
  });
}

TEST(RefusalTest, AnotherPlanIsFoundBeforeAnythingIsLoaded) {
  Together(2, [](Processes& self) {
    Layers layers(2, self.rank() == 0 ? 2 : 3, 4);
    Own own(self, layers);
    EXPECT_SAYS(own.Make(layers.plan).status(), "process " + std::to_string(1 - self.rank()) + " has plan");
    EXPECT_EQ(ReadHostBooks(own.mesh.driver(), 0).most_bytes, 0u);
  });
}

TEST(RefusalTest, OneThatCannotLoadItIsNamed) {
  Together(3, [](Processes& self) {
    Layers layers(3, 1, 4);
    HostFaults faults;
    uint32_t rank = self.rank();
    faults.user = &rank;
    faults.before = [](void* user, HostCall call, uint32_t, uint32_t) {
      return call == HostCall::kLoadModule && *static_cast<uint32_t*>(user) == 2
                 ? Status::Error(Code::kOutOfMemory, "no room")
                 : Status::Ok();
    };
    Own own(self, layers, faults);
    const Status status = own.Make(layers.plan).status();
    EXPECT_EQ(status.code(), Code::kOutOfMemory);
    EXPECT_SAYS(status, self.rank() == 2 ? "no room" : "process 2: no room");
  });
}

// A device fails, and the other processes see its error.
TEST(FailureTest, OnesErrorEndsTheOthersWithItsSentence) {
  TogetherOn(3, 3, 4, false, [](Processes& self, Layers& layers) {
    HostFaults faults;
    if (self.rank() == 1) faults.fail_device = 0;  // each process's only device
    faults.fail_collective = 3;
    Own own(self, layers, faults);
    Result<Session> session = own.Make(layers.plan);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const Status status = session->Run(0, own.inputs, own.outputs);
    EXPECT_SAYS(status, "failed as asked");
    EXPECT_SAYS(status, "device 1, sync point 3");
    if (self.rank() != 1) EXPECT_SAYS(status, "process 1 has given up: program \"mesh\", step ");
    EXPECT_STREQ(session->Run(0, own.inputs, own.outputs).message(), status.message()) << "it sticks";
    const Result<Session> next = own.Make(layers.plan);
    EXPECT_FALSE(next.ok());
  });
}

TEST(FailureTest, OneThatEndsWithoutAWordIsNamed) {
  TogetherOn(2, 2, 4, false, [](Processes& self, Layers& layers) {
    Own own(self, layers);
    {
      Result<Session> session = own.Make(layers.plan);
      ASSERT_TRUE(session.ok()) << session.status().message();
      if (self.rank() == 1) return;  // it drops its session and its connections
      EXPECT_SAYS(session->Run(0, own.inputs, own.outputs), "process 1 has ended");
      EXPECT_SAYS(session->status(), "device 0, sync point 0");
    }
  });
}

// A device neither fails nor goes on. Its own process's watchdog reports where it stands. If that does
// nothing either, another process's watchdog reports for whom it waits.
void ExpectStopFound(uint64_t mine_ms, uint64_t others_ms, const char* text) {
  TogetherOn(2, 4, 4, false, [&](Processes& self, Layers& layers) {
    struct Pause {
      Processes& self;
      std::atomic<int> starts{0};
    } pause{self};
    HostFaults faults;
    faults.user = &pause;
    faults.before = [](void* user, HostCall call, uint32_t, uint32_t) {
      auto* pause = static_cast<Pause*>(user);
      if (call != HostCall::kStartCollective || pause->self.rank() != 1 || pause->starts++ != 4)
        return Status::Ok();
      while (pause->self.state().ok()) std::this_thread::sleep_for(milliseconds(5));
      return Status::Ok();
    };
    Own own(self, layers, faults);
    Result<Session> session = own.Make(layers.plan, self.rank() == 1 ? mine_ms : others_ms);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const auto start = std::chrono::steady_clock::now();
    const Status status = session->Run(0, own.inputs, own.outputs);
    EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(kWatchdogMs + 30000));
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_SAYS(status, text);
    EXPECT_SAYS(status, "no progress for ");
    EXPECT_NE(std::string(status.source_node()), "");
  });
}

TEST(FailureTest, OneThatStopsIsFoundInTheWatchdogsTime) {
  ExpectStopFound(kWatchdogMs, kWatchdogMs, "sync point 4: no progress for ");
  ExpectStopFound(kWatchdogMs, 600000, "device 1, sync point 4: no progress for ");
}

TEST(FailureTest, OneWhoseProcessStopsIsFoundInTheOthersWatchdogsTime) {
  ExpectStopFound(600000, kWatchdogMs, "device 0, sync point 4: no progress for ");
  ExpectStopFound(600000, kWatchdogMs, "the device waits here for another (of 1)");
}

// Pairs among four processes.
TEST(GroupsTest, MeetWithoutTheOthers) {
  Together(4, [](Processes& self) {
    MeshPlan mesh(4);
    const int64_t n = 4;
    const std::vector<std::vector<uint32_t>> pairs = {{0, 1}, {0, 1}, {2, 3}, {0, 2}, {1, 3}};
    std::vector<uint32_t> in, mid, out, points;
    for (uint32_t d = 0; d < 4; ++d) {
      in.push_back(mesh.Add(BufferKind::kInput, d, "in" + std::to_string(d), n));
      mid.push_back(mesh.Add(BufferKind::kTemporary, d, "mid" + std::to_string(d), n));
      out.push_back(mesh.Add(BufferKind::kOutput, d, "out" + std::to_string(d), n));
    }
    for (size_t i = 0; i < pairs.size(); ++i) {
      const uint32_t communicator = static_cast<uint32_t>(i == 0 ? 0 : i - 1);
      points.push_back(
          mesh.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, 16, communicator, pairs[i], "p"));
    }
    for (uint32_t d = 0; d < 4; ++d) {
      Binding from{in[d], 0};
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (pairs[i][0] != d && pairs[i][1] != d) continue;
        const Binding to{i >= 3 ? out[d] : mid[d], 0};
        mesh.Start(d, points[i], from, to);
        mesh.Wait(d, points[i]);
        from = to;
      }
    }
    mesh.Finish();
    const Mesh host(Own::Options(self, {}));
    Session session = host.MakeSession(Mesh::Open(mesh));
    ASSERT_TRUE(session.valid());
    const std::string in_name = "in" + std::to_string(self.rank()),
                      out_name = "out" + std::to_string(self.rank());
    std::vector<float> x(4, 1.0f + static_cast<float>(self.rank())), y(4);
    const std::vector<Input> inputs = {{in_name, kNone, DType::kF32, {n}, x.data(), 16}};
    const std::vector<Output> outputs = {{out_name, kNone, DType::kF32, y.data(), 16}};
    for (int run = 0; run < 3; ++run) {
      const Status status = session.Run(0, inputs, outputs);
      ASSERT_TRUE(status.ok()) << status.message();
      // 1 + 2 twice, and 3 + 4 once.
      EXPECT_EQ(y[0], 2 * (1.0f + 2.0f) + (3.0f + 4.0f));
    }
  });
}

// Two sessions, made in the same order everywhere, run their programs in turn.
TEST(OrderTest, SeveralSessionsTakeTurns) {
  Together(2, [](Processes& self) {
    Layers a(2, 2, 5, false, 1), b(2, 1, 9, true, 2);
    Own first(self, a), second(self, b);
    Result<Session> one = first.Make(a.plan), other = Session::Create(first.mesh.runtime(), b.plan);
    ASSERT_TRUE(one.ok() && other.ok());
    for (int run = 0; run < 20; ++run) {
      ASSERT_TRUE(one->Run(0, first.inputs, first.outputs).ok());
      ASSERT_TRUE(other->Run(0, second.inputs, second.outputs).ok());
      EXPECT_EQ(*static_cast<const float*>(first.outputs[0].data), a.expected[0]);
      EXPECT_EQ(*static_cast<const float*>(second.outputs[0].data), b.expected[0]);
    }
  });
}

TEST(OrderTest, RunsInAnotherOrderAreAnErrorThatNamesBoth) {
  Together(2, [](Processes& self) {
    Layers a(2, 1, 4), b(2, 1, 4);
    Own own(self, a);
    Result<Session> one = own.Make(a.plan), other = own.Make(b.plan);
    ASSERT_TRUE(one.ok() && other.ok());
    Session& mine = self.rank() == 0 ? *one : *other;
    const Status status = mine.Run(0, own.inputs, own.outputs);
    EXPECT_SAYS(status, "of run 1 of program 0");
    EXPECT_SAYS(status, "of run 1 of program 1");
  });
}

TEST(OrderTest, ManyRunsWithRandomDelays) {
  TogetherOn(2, 1, 2, false, [](Processes& self, Layers& layers) {
    HostFaults faults;
    faults.seed = self.rank() + 1;
    faults.most_delay_us = 20;
    Own own(self, layers, faults);
    Result<Session> session = own.Make(layers.plan);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const float* got = static_cast<const float*>(own.outputs[0].data);
    const int runs = HowMany("RONDO_PROCESS_RUNS", 1000);
    for (int run = 0; run < runs; ++run) {
      ASSERT_TRUE(session->Run(0, own.inputs, own.outputs).ok());
      ASSERT_EQ(got[0], layers.expected[0]);
      ASSERT_EQ(got[1], layers.expected[1]);
    }
  });
}

}  // namespace
}  // namespace rondo
