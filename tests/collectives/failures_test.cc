// Runs on several devices that fail, at every call on any device, or are ended: the error names the device,
// and other sessions go on.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/collectives/mesh.h"

namespace rondo {
namespace {

bool Contains(const Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

// Checks the error, the device that it names, and that other sessions go on.
TEST(FailureTest, OneFailedRankNamesItselfAndEndsTheOthers) {
  for (uint32_t device = 0; device < 3; ++device) {
    for (uint64_t nth : {0u, 1u, 3u}) {
      HostOptions options = MeshOptions(3);
      options.faults.fail_device = device;
      options.faults.fail_collective = nth;
      const Mesh mesh(options);
      Layers layers(3, 2, 4, nth == 3), other(3, 2, 4, false, 5);
      Session session = mesh.MakeSession(layers.plan), next = mesh.MakeSession(other.plan);
      bool right = false;
      Status status = layers.Run(&session, &right);
      EXPECT_EQ(status.code(), Code::kInternal);
      // A device's streams have no order, so either of a layer's two collectives may be posted first.
      EXPECT_TRUE(Contains(status, "device " + std::to_string(device) + ", sync point ")) << status.message();
      EXPECT_TRUE(Contains(status, "program \"mesh\", step ")) << status.message();
      EXPECT_TRUE(Contains(status, nth == 0 ? "sum0" : nth == 1 ? "side0" : "side1")) << status.message();
      EXPECT_TRUE(Contains(status, "failed as asked")) << status.message();
      EXPECT_TRUE(std::string(status.source_node()).find("Collective \"s") == 0) << status.source_node();
      EXPECT_STREQ(layers.Run(&session, &right).message(), status.message()) << "it sticks";
      other.ExpectRight(&next);
      Session fresh = mesh.MakeSession(layers.plan);
      layers.ExpectRight(&fresh);
    }
  }
}

// The fault that HostFaults::before makes.
struct Plot {
  HostCall call = HostCall::kStep;
  uint32_t device = 0;
  std::atomic<int> after{-1};  // number of calls before the one that fails; below 0: none fails
  static Status Before(void* user, HostCall call, uint32_t device, uint32_t) {
    auto* plot = static_cast<Plot*>(user);
    if (call != plot->call || device != plot->device) return Status::Ok();
    if (plot->after.load() < 0 || plot->after.fetch_sub(1) != 0) return Status::Ok();
    return Status::Error(Code::kInternal, "call %d failed as asked", static_cast<int>(call));
  }
};

// Each call of every kind that a run makes on a device fails once. The run ends, and its error is the root
// cause.
TEST(FailureTest, EveryCallOfARunMayFailOnAnyDevice) {
  for (HostCall call : {HostCall::kCopyIn, HostCall::kCopyOut, HostCall::kLaunchGraph, HostCall::kSynchronize,
                        HostCall::kStep, HostCall::kStartCollective, HostCall::kWaitCollective,
                        HostCall::kPostCollective, HostCall::kCompleteCollective}) {
    for (uint32_t device = 0; device < 2; ++device) {
      Plot plot;
      HostOptions options = MeshOptions(2);
      options.faults.before = Plot::Before;
      options.faults.user = &plot;
      const Mesh mesh(options);
      Layers layers(2, 2, 4, true);
      plot.call = call;
      plot.device = device;
      bool failed = true;
      for (int after = 0; failed && after < 100; ++after) {
        Session session = mesh.MakeSession(layers.plan);
        plot.after = after;
        bool right = false;
        Status status = layers.Run(&session, &right);
        // Which rank comes last to a collective depends on timing.
        failed = plot.after.exchange(-1) < 0;
        EXPECT_EQ(failed, !status.ok()) << static_cast<int>(call) << " " << after;
        if (!failed) break;
        EXPECT_TRUE(Contains(status, "failed as asked")) << status.message();
        EXPECT_TRUE(Contains(status, "device ")) << status.message();
        EXPECT_FALSE(session.status().ok());
      }
      EXPECT_FALSE(failed);
    }
  }
}

TEST(FailureTest, EveryCallOfMakingASessionMayFailOnAnyDevice) {
  for (HostCall call : {HostCall::kAllocate, HostCall::kFill, HostCall::kLoadModule, HostCall::kCreateStream,
                        HostCall::kBeginRecord, HostCall::kEndRecord, HostCall::kSynchronize}) {
    Plot plot;
    HostOptions options = MeshOptions(2);
    options.faults.before = Plot::Before;
    options.faults.user = &plot;
    Mesh mesh(options);
    Layers layers(2, 2, 4, true);
    plot.call = call;
    for (plot.device = 0; plot.device < 2; ++plot.device) {
      bool failed = true;
      for (int after = 0; failed && after < 100; ++after) {
        plot.after = after;
        Result<Session> session = Session::Create(mesh.runtime(), layers.plan);
        failed = plot.after.exchange(-1) < 0;
        EXPECT_EQ(failed, !session.ok());
        session = Status::Error(Code::kAborted, "gone");
        for (uint32_t d = 0; d < 2; ++d) EXPECT_EQ(ReadHostBooks(mesh.driver(), d).blocks, 0u);
      }
    }
  }
}

// Device 1 is late, and the others wait for it in collectives, or on the host between partitions.
TEST(StopTest, ALimitAndCancelEndARunOnAllDevices) {
  for (bool split : {false, true}) {
    HostOptions options = MeshOptions(4);
    static std::atomic<bool> late;
    static std::atomic<size_t> begun;  // steps of device 1 while it is late
    options.faults.before = [](void*, HostCall call, uint32_t device, uint32_t) {
      if (late && device == 1 && call == HostCall::kStep) {
        ++begun;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      return Status::Ok();
    };
    late = false;
    const Mesh mesh(options);
    Layers layers(4, 3, 7, split);
    Session session = mesh.MakeSession(layers.plan);
    layers.ExpectRight(&session);
    size_t own = 0;  // steps of device 1
    for (const Step& step : layers.mesh.program().steps) own += step.device == 1;
    for (bool cancel : {false, true}) {
      late = true;
      begun = 0;
      RunOptions limit;
      limit.timeout_ns = cancel ? 0 : 20'000'000;
      std::thread canceller([&] {
        while (cancel && late) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          session.Cancel();
        }
      });
      const Status status = session.Run(0, layers.inputs, layers.outputs, limit);
      late = false;
      canceller.join();
      EXPECT_EQ(status.code(), cancel ? Code::kCancelled : Code::kDeadlineExceeded) << status.message();
      EXPECT_LT(begun, own / 2) << "of " << own << " steps";
      EXPECT_TRUE(session.status().ok());
      layers.ExpectRight(&session);
    }
  }
}

}  // namespace
}  // namespace rondo
