// The calls that an embedder's functions may make: `done` starts the next run or destroys its session, even
// while other threads are inside rondo_session_run_async. Waiting there, or calling back from the log, is an
// error.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "runtime/c_handles.h"
#include "tests/runtime/tiny_c.h"
#ifdef RONDO_HAVE_HOST
#include "drivers/capi/rondo_host.h"
#endif

namespace rondo {
namespace {

constexpr int kRounds = 20000;

// Destroys the error and returns its message.
std::string Take(rondo_error* error) {
  const std::string text = rondo_error_message(error);
  rondo_error_destroy(error);
  return text;
}

class CallbacksTest : public testing::TestWithParam<const char*> {
 protected:
  void Open(rondo_runtime_options options = RONDO_INIT(rondo_runtime_options)) {
#ifdef RONDO_HAVE_HOST
    if (GetParam() == std::string("host")) driver = rondo_host_driver_create(1, 1);
#endif
    if (driver == nullptr) driver = FakeHandle();
    if (options.async_workers == 0) options.async_workers = 1;
    ASSERT_EQ(Take(rondo_plan_open_bytes(PlanBytes().data(), PlanBytes().size(), nullptr, &plan)), "");
    ASSERT_EQ(Take(rondo_runtime_create(driver, &options, &runtime)), "");
  }
  ~CallbacksTest() override {
    EXPECT_EQ(Take(rondo_runtime_destroy(runtime)), "");
    rondo_plan_destroy(plan);
  }
  rondo_driver* driver = nullptr;
  rondo_plan* plan = nullptr;
  rondo_runtime* runtime = nullptr;
};

// A session whose runs end in `done`.
struct Loop {
  rondo_session* session = nullptr;
  float x[4] = {1, 1, 1, 1}, y[4] = {};
  std::atomic<int> ended{0}, refused{0};
  std::string message;  // message of the last error

  void Note(rondo_error* error) {
    if (error != nullptr) ++refused;
    const std::string text = Take(error);
    if (!text.empty()) message = text;
  }
  rondo_error* Start(rondo_run_done done) {
    const int64_t dims[] = {4};
    rondo_tensor in = RONDO_INIT(rondo_tensor), out = RONDO_INIT(rondo_tensor);
    in.name = "x", in.rank = 1, in.dims = dims, in.data = x, in.bytes = sizeof(x);
    out.name = "y", out.data = y, out.bytes = sizeof(y);
    return rondo_session_run_async(session, 0, &in, 1, &out, 1, nullptr, done, this);
  }
  void AwaitEnd(int count) {
    while (ended.load() < count) std::this_thread::yield();
  }
};

TEST_P(CallbacksTest, DoneStartsTheNextRunAndIsNeverRefused) {
  Open();
  Loop loop;
  ASSERT_EQ(Take(rondo_session_create(runtime, plan, &loop.session)), "");
  // Each round starts a run from this thread and one more from `done`, which is called while this thread is
  // still inside rondo_session_run_async.
  const rondo_run_done last = [](void* user, rondo_error* error) {
    auto* self = static_cast<Loop*>(user);
    self->Note(error);
    ++self->ended;
  };
  static rondo_run_done end;
  end = last;
  const rondo_run_done first = [](void* user, rondo_error* error) {
    auto* self = static_cast<Loop*>(user);
    self->Note(error);
    rondo_error* again = self->Start(end);
    if (again != nullptr) ++self->ended;
    self->Note(again);
  };
  for (int round = 1; round <= kRounds; ++round) {
    ASSERT_EQ(Take(loop.Start(first)), "") << "round " << round;
    loop.AwaitEnd(round);
  }
  EXPECT_EQ(loop.refused, 0) << loop.message;
  EXPECT_EQ(Take(rondo_session_destroy(loop.session)), "");
}

TEST_P(CallbacksTest, DoneDestroysItsSessionAndIsNeverRefused) {
  Open();
  Loop loop;
  const rondo_run_done destroy = [](void* user, rondo_error* error) {
    auto* self = static_cast<Loop*>(user);
    self->Note(error);
    rondo_error* refused = rondo_session_destroy(self->session);
    if (refused == nullptr) self->session = nullptr;
    self->Note(refused);
    ++self->ended;
  };
  rondo_session* keep = nullptr;  // keeps the plan loaded
  ASSERT_EQ(Take(rondo_session_create(runtime, plan, &keep)), "");
  for (int round = 1; round <= kRounds; ++round) {
    ASSERT_EQ(Take(rondo_session_create(runtime, plan, &loop.session)), "");
    ASSERT_EQ(Take(loop.Start(destroy)), "");
    loop.AwaitEnd(round);
    if (loop.session == nullptr) continue;
    ASSERT_EQ(Take(rondo_session_destroy(loop.session)), "");
  }
  EXPECT_EQ(loop.refused, 0) << loop.message;
  EXPECT_EQ(Take(rondo_session_destroy(keep)), "");
}

// Others may be waiting for the run whose `done` destroys the session.
TEST_P(CallbacksTest, DoneDestroysItsSessionWhileOthersWait) {
  if (GetParam() != std::string("fake")) GTEST_SKIP() << "this driver's runs cannot be held up";
  Open();
  Loop loop;
  const rondo_run_done destroy = [](void* user, rondo_error* error) {
    auto* self = static_cast<Loop*>(user);
    self->Note(error);
    self->Note(rondo_session_destroy(self->session));
    ++self->ended;
  };
  for (int round = 1; round <= 50; ++round) {
    ASSERT_EQ(Take(rondo_session_create(runtime, plan, &loop.session)), "");
    std::thread waiter;
    {
      std::lock_guard<std::mutex> hold(static_cast<FakeDriver*>(driver->driver)->controls.mutex);
      ASSERT_EQ(Take(loop.Start(destroy)), "");
      waiter = std::thread([&] { EXPECT_EQ(Take(rondo_session_wait(loop.session)), ""); });
      while (loop.session->impl()->pending.waiting == 0) std::this_thread::yield();
    }
    waiter.join();
    loop.AwaitEnd(round);
  }
  EXPECT_EQ(loop.refused, 0) << loop.message;
}

TEST_P(CallbacksTest, WaitingForARunInDoneIsASentence) {
  Open();
  Loop loop;
  ASSERT_EQ(Take(rondo_session_create(runtime, plan, &loop.session)), "");
  const rondo_run_done wait = [](void* user, rondo_error* error) {
    auto* self = static_cast<Loop*>(user);
    EXPECT_EQ(Take(error), "");
    EXPECT_EQ(Take(rondo_session_wait(self->session)), "") << "no run is under way";
    EXPECT_EQ(Take(self->Start(nullptr)), "");
    self->Note(rondo_session_wait(self->session));
    ++self->ended;
  };
  ASSERT_EQ(Take(loop.Start(wait)), "");
  loop.AwaitEnd(1);
  EXPECT_EQ(loop.message, "a thread that executes asynchronous runs cannot wait for the end of one");
  EXPECT_EQ(Take(rondo_session_wait(loop.session)), "");
  EXPECT_EQ(Take(rondo_session_destroy(loop.session)), "");
}

// The log is called in the middle of loading a plan, with the runtime locked.
TEST_P(CallbacksTest, ALogFunctionThatCallsBackGetsASentence) {
  struct Caller {
    rondo_runtime** runtime;
    rondo_plan** plan;
    rondo_session* session = nullptr;
    int refused = 0;
    std::string last = "";
    void Note(rondo_error* error) {
      refused += rondo_error_code(error) == RONDO_FAILED_PRECONDITION ? 1 : 0;
      last = Take(error);
    }
  } caller{&runtime, &plan};
  rondo_runtime_options options = RONDO_INIT(rondo_runtime_options);
  options.least_log_level = RONDO_LOG_DEBUG;
  options.log_user = &caller;
  options.log = [](void* user, rondo_log_level, const char*) {
    auto* self = static_cast<Caller*>(user);
    if (*self->runtime == nullptr) return;
    rondo_session* session = nullptr;
    rondo_metrics metrics = RONDO_INIT(rondo_metrics);
    self->Note(rondo_runtime_ready(*self->runtime));
    self->Note(rondo_runtime_get_metrics(*self->runtime, &metrics));
    self->Note(rondo_runtime_destroy(*self->runtime));
    if (self->session != nullptr) {
      self->Note(rondo_session_run(self->session, 0, nullptr, 0, nullptr, 0, nullptr));
      self->Note(rondo_session_wait(self->session));
      self->Note(rondo_session_destroy(self->session));
    }
    self->Note(rondo_session_create(*self->runtime, *self->plan, &session));
    EXPECT_EQ(session, nullptr);
  };
  Open(options);
  ASSERT_EQ(Take(rondo_session_create(runtime, plan, &caller.session)), "");
  const int in_create = caller.refused;
  EXPECT_GE(in_create, 8) << "of the plan's loading and the session";
  EXPECT_EQ(caller.last, "rondo_session_create: the log function, which must not call back, called it");
  EXPECT_NE(Take(rondo_session_run(caller.session, 0, nullptr, 0, nullptr, 0, nullptr)), "");
  EXPECT_EQ(caller.refused, in_create + 7);
  EXPECT_EQ(Take(rondo_session_destroy(std::exchange(caller.session, nullptr))), "");
}

INSTANTIATE_TEST_SUITE_P(Drivers, CallbacksTest,
#ifdef RONDO_HAVE_HOST
                         testing::Values("fake", "host"),
#else
                         testing::Values("fake"),
#endif
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rondo
