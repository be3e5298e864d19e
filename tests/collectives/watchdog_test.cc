// The watchdog: devices that stop without an error.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "core/forwarding_driver.h"
#include "core/sanitized.h"
#include "tests/collectives/mesh.h"
#include "tests/says.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kWatchdogMs = kSanitized ? 3000 : 1000;
constexpr double kSlack = 30;  // seconds that a busy machine may add

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A device that stops at its `nth` call of one kind (from 0 on), until it is let go or for a set time.
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
  // Lets the halted device go once the run is told to end, however late that is.
  Mesh::Wrap UntilAborted() {
    return [this](Driver* host) { return std::make_unique<Aborts>(host, this); };
  }

 private:
  struct Aborts : ForwardingDriver {
    Aborts(Driver* host, Halt* halt) : ForwardingDriver(host), halt(halt) {}
    void AbortCollectives(Collectives* collectives, const Status& why, bool wait) override {
      inner_->AbortCollectives(collectives, why, false);
      halt->LetGo();
      if (wait) inner_->AbortCollectives(collectives, why, true);
    }
    Halt* halt;
  };
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
      const Mesh mesh(halt.Options(3), {}, halt.UntilAborted());
      Layers layers(3, 4, 4);
      Session session = Watched(mesh, layers.plan);
      halt.call = HostCall::kStartCollective;
      halt.nth = nth;
      bool right = false;
      const auto start = Clock::now();
      const Status status = layers.Run(&session, &right);
      EXPECT_LT(SecondsSince(start), 0.001 * kWatchdogMs + kSlack);
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
  const Mesh mesh(halt.Options(2), {}, halt.UntilAborted());
  Layers layers(2, 1, 4);
  Session session = Watched(mesh, layers.plan);
  halt.call = HostCall::kCopyOut;
  halt.nth = 0;
  bool right = false;
  EXPECT_SAYS(layers.Run(&session, &right), "device 1, sync point 1: no progress for ");
  EXPECT_SAYS(session.status(), "has passed this sync point, its last, and has not ended");
}

// A run returns even if its device never ends. Later runs get an error.
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
  // The second session's run waits behind the first on device 1, and may be under way on device 0.
  std::thread behind([&] {
    std::this_thread::sleep_for(milliseconds(kWatchdogMs / 4));
    EXPECT_SAYS(other.Run(&second, &right), "device 1 does not end and is lost");
  });
  bool ignored = false;
  const Status status = layers.Run(&session, &ignored);
  EXPECT_LT(SecondsSince(start), 0.002 * kWatchdogMs + kSlack);
  behind.join();
  EXPECT_LT(SecondsSince(start), 0.002 * kWatchdogMs + kSlack);
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_SAYS(status, "device 1 does not end and is lost, replace the process: program \"mesh\", step ");
  EXPECT_NE(std::string(status.source_node()), "");
  EXPECT_SAYS(mesh.runtime().Ready(), "is lost");
  RunOptions stepwise;
  stepwise.stepwise = true;
  Session third = Watched(mesh, other.plan);
  EXPECT_SAYS(other.Run(&third, &right, stepwise), "is lost");
  EXPECT_SAYS(other.Run(&third, &right), "is lost");
  // When the device goes on, it does not touch the caller's memory.
  layers.out.assign(layers.out.size(), -2);
  halt.LetGo();
  std::this_thread::sleep_for(milliseconds(100));
  for (float value : layers.out) EXPECT_EQ(value, -2);
}

// A slow device. `longest` is the longest time in which no device came to a collective or ended one.
struct Slow {
  milliseconds a_step{};  // delay of every other step
  std::mutex mutex;
  int steps = 0;
  Clock::time_point last = Clock::now();
  double longest = 0;  // seconds

  void Note() {
    std::lock_guard<std::mutex> lock(mutex);
    longest = std::max(longest, SecondsSince(last));
    last = Clock::now();
  }
  static Status Before(void* user, HostCall call, uint32_t, uint32_t) {
    auto* self = static_cast<Slow*>(user);
    if (call == HostCall::kPostCollective || call == HostCall::kCompleteCollective) self->Note();
    if (call != HostCall::kStep) return Status::Ok();
    {
      std::lock_guard<std::mutex> lock(self->mutex);
      if (self->steps++ % 2 != 0) return Status::Ok();
    }
    std::this_thread::sleep_for(self->a_step);
    return Status::Ok();
  }
};

// If the machine is too busy to run the test's threads for the watchdog's time, the run may be ended. Then
// the test tries again with more time.
TEST(WatchdogTest, ARunThatGoesOnIsLeftAlone) {
  for (uint64_t watchdog = kWatchdogMs; watchdog < 64 * kWatchdogMs; watchdog *= 2) {
    Slow slow;
    slow.a_step = milliseconds(watchdog / 8);
    HostOptions options = MeshOptions(2);
    options.faults.before = Slow::Before;
    options.faults.user = &slow;
    const Mesh mesh(options);
    Layers layers(2, 4, 4);
    Session session = Watched(mesh, layers.plan, watchdog);
    const auto start = Clock::now();
    slow.last = start;
    bool right = false;
    const Status status = layers.Run(&session, &right);
    slow.Note();
    if (!status.ok()) {
      ASSERT_GE(slow.longest, 0.0009 * static_cast<double>(watchdog)) << status.message();
      continue;
    }
    EXPECT_TRUE(right);
    EXPECT_GE(SecondsSince(start), 0.001 * kWatchdogMs) << "it must take longer than the watchdog's time";
    return;
  }
  FAIL() << "this machine never ran the test's threads in time";
}

// One run waits for another to end: only the other is watched.
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

// A device that others wait for has an error after which its session stays usable. The others must not keep
// waiting.
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
