// The watchdog: devices that stop without an error.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "tests/collectives/mesh.h"
#include "tests/sanitized.h"
#include "tests/says.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kWatchdogMs = kSanitized ? 3000 : 1000;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A device that stops at its `nth` call of one kind, from 0 on, until it is let go or for a while.
struct Halt {
  HostCall call = HostCall::kStep;
  uint32_t device = 0;
  std::atomic<int> nth{-1};  // below 0: none
  milliseconds for_ms = milliseconds::max();
  std::mutex mutex;
  std::condition_variable changed;
  bool halted = false, let_go = false;

  static Status Before(void* user, HostCall call, uint32_t device, uint32_t) {
    auto* self = static_cast<Halt*>(user);
    if (call != self->call || device != self->device || self->nth < 0 || self->nth.fetch_sub(1) != 0)
      return Status::Ok();
    std::unique_lock<std::mutex> lock(self->mutex);
    self->halted = true;
    if (self->for_ms == milliseconds::max()) {
      self->changed.wait(lock, [self] { return self->let_go; });
    } else {
      self->changed.wait_for(lock, self->for_ms, [self] { return self->let_go; });
    }
    self->halted = false;
    return Status::Ok();
  }
  void LetGo() {
    std::lock_guard<std::mutex> lock(mutex);
    let_go = true;
    changed.notify_all();
  }
  HostOptions Options(uint32_t devices) {
    HostOptions options = MeshOptions(devices);
    options.faults.before = Before;
    options.faults.user = this;
    return options;
  }
};

Session Watched(const Mesh& mesh, const Plan& plan, uint64_t milliseconds = kWatchdogMs) {
  SessionOptions options;
  options.watchdog_ns = milliseconds * 1000000;
  Result<Session> session = Session::Create(mesh.runtime(), plan, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? session.Take() : Session();
}

TEST(WatchdogTest, NamesTheDeviceTheSyncPointAndTheNodeWhereADeviceHasStopped) {
  for (uint32_t device = 0; device < 3; ++device) {
    for (int nth : {0, 3}) {
      Halt halt;
      halt.device = device;
      halt.for_ms = milliseconds(kWatchdogMs * 11 / 10);
      const Mesh mesh(halt.Options(3));
      Layers layers(3, 4, 4);
      Session session = Watched(mesh, layers.plan);
      halt.call = HostCall::kStartCollective;
      halt.nth = nth;
      bool right = false;
      const auto start = Clock::now();
      const Status status = layers.Run(&session, &right);
      EXPECT_LT(SecondsSince(start), 0.002 * kWatchdogMs + 5);
      EXPECT_GE(SecondsSince(start), 0.001 * kWatchdogMs);
      EXPECT_EQ(status.code(), Code::kAborted);
      EXPECT_SAYS(status, "device " + std::to_string(device) + ", sync point " + std::to_string(nth));
      EXPECT_SAYS(status, "the device has not come to this sync point");
      EXPECT_SAYS(status, nth == 0 ? "Collective \"sum0\"" : "Collective \"s");
      EXPECT_EQ(std::string(status.source_node()).find("Collective \"s"), 0u) << status.source_node();
      EXPECT_STREQ(layers.Run(&session, &right).message(), status.message()) << "it sticks";
      EXPECT_TRUE(mesh.runtime().Ready().ok());
      Session fresh = mesh.MakeSession(layers.plan);
      layers.ExpectRight(&fresh);
    }
  }
}

TEST(WatchdogTest, ADeviceThatStopsAfterItsLastSyncPointIsNamedToo) {
  Halt halt;
  halt.device = 1;
  halt.for_ms = milliseconds(kWatchdogMs * 11 / 10);
  const Mesh mesh(halt.Options(2));
  Layers layers(2, 1, 4);
  Session session = Watched(mesh, layers.plan);
  halt.call = HostCall::kCopyOut;
  halt.nth = 0;
  bool right = false;
  EXPECT_SAYS(layers.Run(&session, &right), "device 1, sync point 1: no progress for ");
  EXPECT_SAYS(session.status(), "has passed this sync point, its last, and has not ended");
}

// A run whose device never ends returns all the same; whoever comes later is told.
TEST(WatchdogTest, ADeviceThatDoesNotEndIsLostAndNobodyWaitsForIt) {
  Halt halt;
  halt.device = 1;
  RuntimeOptions runtime_options;
  runtime_options.async_workers = 1;
  const Mesh mesh(halt.Options(2), runtime_options);
  Layers layers(2, 2, 4), other(2, 2, 4, false, 9);
  Session session = Watched(mesh, layers.plan), second = Watched(mesh, other.plan, 600000);
  halt.nth = 4;
  bool right = false;
  const auto start = Clock::now();
  // The second session's run is behind it on device 1, and on device 0 perhaps under way.
  std::thread behind([&] {
    std::this_thread::sleep_for(milliseconds(kWatchdogMs / 4));
    EXPECT_SAYS(other.Run(&second, &right), "device 1 does not end and is lost");
  });
  bool ignored = false;
  const Status status = layers.Run(&session, &ignored);
  EXPECT_LT(SecondsSince(start), 0.003 * kWatchdogMs + 5);
  behind.join();
  EXPECT_LT(SecondsSince(start), 0.003 * kWatchdogMs + 6);
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_SAYS(status, "device 1 does not end and is lost, replace the process: program \"mesh\", step ");
  EXPECT_NE(std::string(status.source_node()), "");
  EXPECT_SAYS(mesh.runtime().Ready(), "is lost");
  RunOptions stepwise;
  stepwise.stepwise = true;
  Session third = Watched(mesh, other.plan);
  EXPECT_SAYS(other.Run(&third, &right, stepwise), "is lost");
  EXPECT_SAYS(other.Run(&third, &right), "is lost");
  // Whatever the device does when it goes on, the caller's memory is not touched.
  layers.out.assign(layers.out.size(), -2);
  halt.LetGo();
  std::this_thread::sleep_for(milliseconds(100));
  for (float value : layers.out) EXPECT_EQ(value, -2);
}

TEST(WatchdogTest, ARunThatGoesOnIsLeftAlone) {
  HostOptions options = MeshOptions(2);
  options.faults.seed = 5;
  options.faults.most_delay_us = kWatchdogMs * 200;  // of one step
  const Mesh mesh(options);
  Layers layers(2, 12, 4);
  Session session = Watched(mesh, layers.plan);
  const auto start = Clock::now();
  layers.ExpectRight(&session);
  EXPECT_GE(SecondsSince(start), 0.001 * kWatchdogMs) << "it must take longer than the watchdog's time";
}

// What one run waits for is another's end: only that one is watched.
TEST(WatchdogTest, ARunThatWaitsForAnotherSessionsIsLeftAlone) {
  Halt halt;
  halt.for_ms = milliseconds(kWatchdogMs * 2);
  const Mesh mesh(halt.Options(2));
  Layers a(2, 1, 4), b(2, 1, 4, false, 2);
  Session slow = Watched(mesh, a.plan, kWatchdogMs * 10), quick = Watched(mesh, b.plan);
  halt.nth = 1;
  std::thread first([&] { a.ExpectRight(&slow); });
  std::this_thread::sleep_for(milliseconds(kWatchdogMs / 4));
  b.ExpectRight(&quick);
  first.join();
}

// An error that leaves a session usable, of a device that others wait for, must not keep them waiting.
TEST(WatchdogTest, IsNotNeededForDataThatADeviceCannotWorkOn) {
  struct Fault {
    std::atomic<int> nth{-1};
  } fault;
  HostOptions host = MeshOptions(2);
  host.faults.user = &fault;
  host.faults.before = [](void* user, HostCall call, uint32_t device, uint32_t) {
    auto& nth = static_cast<Fault*>(user)->nth;
    if (call != HostCall::kStep || device != 1 || nth < 0 || nth.fetch_sub(1) != 0) return Status::Ok();
    return Status::Error(Code::kOutOfRange, "no such word");
  };
  const Mesh mesh(host);
  Layers layers(2, 2, 4);
  Session session = mesh.MakeSession(layers.plan);
  for (int nth = 0; nth < 12; ++nth) {
    fault.nth = nth;
    bool right = false;
    const auto start = Clock::now();
    const Status status = layers.Run(&session, &right);
    EXPECT_LT(SecondsSince(start), 30);
    if (fault.nth.exchange(-1) >= 0) break;
    EXPECT_EQ(status.code(), Code::kOutOfRange) << status.message();
    layers.ExpectRight(&session);
  }
}

TEST(WatchdogTest, MayBeSwitchedOff) {
  Halt halt;
  halt.for_ms = milliseconds(kWatchdogMs * 2);
  const Mesh mesh(halt.Options(2));
  Layers layers(2, 1, 4);
  SessionOptions options;
  options.watchdog_ns = ~uint64_t{0};
  Result<Session> session = Session::Create(mesh.runtime(), layers.plan, options);
  ASSERT_TRUE(session.ok());
  halt.nth = 1;
  layers.ExpectRight(&*session);
}

}  // namespace
}  // namespace rondo
