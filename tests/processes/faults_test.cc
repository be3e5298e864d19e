// All processes see the fault of one process: before anything runs, or within the watchdog's time.
#include <string>
#include <thread>

#include "tests/collectives/damaged_plan.h"
#include "tests/processes/own_session.h"

namespace rondo {
namespace {

using namespace damaged;  // NOLINT

// The process with the damaged file refuses it and gives up, like the rondo command. All processes report the
// reason.
TEST(FaultTest, OneRanksDamagedCollectivesAreToldToAll) {
  for (const Damage& damage : kDamages) {
    Together(4, [&](Processes& self) {
      SCOPED_TRACE(damage.name);
      MeshPlan mesh(4);
      Build(&mesh);
      if (self.rank() == 1) damage.apply(mesh, 2);
      Mesh host(Own::Options(self, {}));
      Result<Plan> plan = Plan::FromData(mesh.data, {});
      if (!plan.ok()) self.Abort(plan.status());
      EXPECT_EQ(plan.ok(), self.rank() != 1);
      const Status status = plan.ok() ? Session::Create(host.runtime(), *plan).status() : plan.status();
      EXPECT_SAYS(status, self.rank() == 1 ? "program \"mesh\"" : "process 1 has given up: program \"mesh\"");
      EXPECT_SAYS(status, damage.text);
      EXPECT_SAYS(status, "device 2, sync point " + std::to_string(damage.sync_point));
      EXPECT_EQ(ReadHostBooks(host.driver(), 0).most_bytes, 0u);
    });
  }
}

// Each file is valid by itself, but they differ: one collective is left out, swapped, resized or another.
TEST(FaultTest, PlansThatDifferInACollectiveAreFoundBeforeAnythingIsLoaded) {
  struct {
    const char* name;
    void (*mine)(MeshPlan& mesh);
    void (*theirs)(MeshPlan& mesh);
  } const kinds[] = {
      {"dropped", [](MeshPlan& mesh) { MakeLayers(&mesh, 2, 4); },
       [](MeshPlan& mesh) { MakeLayers(&mesh, 1, 4); }},
      {"resized", [](MeshPlan& mesh) { MakeLayers(&mesh, 2, 4); },
       [](MeshPlan& mesh) { MakeLayers(&mesh, 2, 5); }},
      {"swapped",
       [](MeshPlan& mesh) {
         Build(&mesh);
         Edit(mesh.program().sync_points, 0).op = CollectiveOp::kBroadcast;
         mesh.Certify();
       },
       [](MeshPlan& mesh) {
         Build(&mesh);
         Edit(mesh.program().sync_points, 1).op = CollectiveOp::kBroadcast;
         mesh.Certify();
       }},
      {"another op", [](MeshPlan& mesh) { Build(&mesh); },
       [](MeshPlan& mesh) {
         Build(&mesh);
         Edit(mesh.program().sync_points, 2).op = CollectiveOp::kBroadcast;
         mesh.Certify();
       }},
  };
  for (const auto& kind : kinds) {
    Together(4, [&](Processes& self) {
      SCOPED_TRACE(kind.name);
      MeshPlan mesh(4);
      (self.rank() == 1 ? kind.theirs : kind.mine)(mesh);
      Mesh host(Own::Options(self, {}));
      const Status status = Session::Create(host.runtime(), Mesh::Open(mesh)).status();
      EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status.message();
      EXPECT_SAYS(status, self.rank() == 1 ? "process 0 has plan" : "process 1 has plan");
      EXPECT_EQ(ReadHostBooks(host.driver(), 0).most_bytes, 0u);
    });
  }
}

TEST(FaultTest, OneThatIsLateIsWaitedFor) {
  TogetherOn(2, 2, 4, false, [](Processes& self, Layers& layers) {
    HostFaults faults;
    uint32_t rank = self.rank();
    faults.user = &rank;
    faults.before = [](void* user, HostCall call, uint32_t, uint32_t) {
      if (call == HostCall::kStartCollective && *static_cast<uint32_t*>(user) == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return Status::Ok();
    };
    Own own(self, layers, faults);
    Result<Session> session = own.Make(layers.plan);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const Status status = session->Run(0, own.inputs, own.outputs);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(*static_cast<const float*>(own.outputs[0].data), layers.expected[0]);
  });
}

// In each process two threads run a session each, in any order. A run is right, or an error says that the
// processes run different sessions.
TEST(FaultTest, TwoSessionsFromTwoThreadsAreRightOrReported) {
  for (unsigned round = 0; round < 20; ++round) {
    Together(2, [](Processes& self) {
      Layers a(2, 2, 4, false, 1), b(2, 2, 4, false, 2);
      Own own(self, a);
      Result<Session> first = own.Make(a.plan), second = own.Make(b.plan);
      ASSERT_TRUE(first.ok() && second.ok());
      const auto run = [&](Session& session, const Layers& layers) {
        const Output& output = layers.outputs[self.rank()];
        const float* got = static_cast<const float*>(output.data);
        for (int i = 0; i < 20; ++i) {
          const Status status = session.Run(0, layers.inputs, std::vector<Output>{output});
          if (!status.ok()) {
            EXPECT_SAYS(status, "process ");
            return;
          }
          for (size_t e = 0; e < layers.expected.size(); ++e) ASSERT_EQ(got[e], layers.expected[e]);
        }
      };
      std::thread other([&] { run(*second, b); });
      run(*first, a);
      other.join();
    });
  }
}

}  // namespace
}  // namespace rondo
