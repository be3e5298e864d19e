// RunAsync and its completions, on every available driver.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/session.h"
#include "tests/runtime/drivers.h"
#include "tests/runtime/open_tiny.h"

namespace rondo {
namespace {

// Counts completions, and keeps the last status.
struct Waiter {
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  Status last;

  Completion completion() {
    return {[](const Completion& self, const Status& status) {
              auto* waiter = static_cast<Waiter*>(self.user);
              std::lock_guard<std::mutex> lock(waiter->mutex);
              ++waiter->calls;
              waiter->last = status;
              waiter->changed.notify_all();
            },
            this};
  }
  Status WaitFor(int count) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return calls >= count; });
    return last;
  }
};

class AsyncTest : public testing::TestWithParam<const char*> {
 public:
  void SetUp() override { Make(1); }
  void Make(uint32_t workers, const ThreadHooks* hooks = nullptr) {
    RuntimeOptions options;
    options.async_workers = workers;
    options.threads = hooks;
    const Status opened = OpenTiny(tiny_, driver_.get(), &plan_, &runtime_, options);
    ASSERT_TRUE(opened.ok()) << opened.message();
  }
  Session MakeSession() { return rondo::MakeSession(runtime_, plan_); }
  Status Add(Session* session, float* y, const Completion& completion) {
    static const float kX[4] = {10, 20, 30, 40};
    // These are on this function's stack: RunAsync must not read them after it has returned.
    std::string in = "x", out = "y";
    const Input inputs[] = {{in, kNone, DType::kF32, {4}, kX, 16}};
    const Output outputs[] = {{out, kNone, DType::kF32, y, 16}};
    return session->RunAsync(TinyPlan::kAdd, inputs, outputs, completion);
  }
  TinyPlan tiny_;
  DriverHandle driver_ = MakeDriver(GetParam());
  Plan plan_;
  Runtime runtime_;
};

TEST_P(AsyncTest, ACompletionTellsTheEndOfARun) {
  Session session = MakeSession();
  Waiter waiter;
  float y[4] = {};
  for (int run = 1; run <= 20; ++run) {
    ASSERT_TRUE(Add(&session, y, waiter.completion()).ok());
    EXPECT_TRUE(waiter.WaitFor(run).ok());
    EXPECT_EQ(y[3], 160);
    y[3] = 0;
  }
  float total[4] = {};
  ASSERT_TRUE(session.ReadState("total", total, 16).ok())
      << "the session is free when the completion is told";
  EXPECT_EQ(total[0], 200);
}

TEST_P(AsyncTest, MistakesAreReturnedAtOnceAndNobodyElseIsTold) {
  Session session = MakeSession();
  Waiter waiter;
  EXPECT_EQ(session.RunAsync(TinyPlan::kAdd, {}, {}, waiter.completion()).code(), Code::kInvalidArgument);
  EXPECT_EQ(session.RunAsync(17, {}, {}, waiter.completion()).code(), Code::kInvalidArgument);
  EXPECT_TRUE(session.Wait().ok());
  EXPECT_EQ(waiter.calls, 0);
  EXPECT_TRUE(session.idle());
}

TEST_P(AsyncTest, AnErrorOfTheRunIsTheCompletions) {
  Session session = MakeSession();
  Waiter waiter;
  const int64_t bad = 9;
  float z = 0;
  const Input inputs[] = {{"index", kNone, DType::kI64, {1}, &bad, 8}};
  const Output outputs[] = {{"z", kNone, DType::kF32, &z, 4}};
  ASSERT_TRUE(session.RunAsync(TinyPlan::kPick, inputs, outputs, waiter.completion()).ok());
  Status status = waiter.WaitFor(1);
  EXPECT_EQ(status.code(), Code::kOutOfRange) << status.message();
  EXPECT_STREQ(status.source_node(), "Gather \"gather_node\"");
}

// The completion's own thread starts the next run, as a generation loop does.
TEST_P(AsyncTest, ACompletionMayStartTheNextRun) {
  struct Loop {
    AsyncTest* test;
    Session session;
    Waiter end;
    int left = 30;
    float y[4] = {};
    static void Next(const Completion& self, const Status& status) {
      auto* loop = static_cast<Loop*>(self.user);
      EXPECT_TRUE(status.ok()) << status.message();
      Completion next{Next, loop};
      if (--loop->left == 0) next = loop->end.completion();
      EXPECT_TRUE(loop->test->Add(&loop->session, loop->y, next).ok());
    }
  } loop{this, MakeSession(), {}, 30, {}};
  ASSERT_TRUE(Add(&loop.session, loop.y, Completion{Loop::Next, &loop}).ok());
  EXPECT_TRUE(loop.end.WaitFor(1).ok());
  float total[4] = {};
  ASSERT_TRUE(loop.session.ReadState("total", total, 16).ok());
  EXPECT_EQ(total[0], 310);
}

TEST_P(AsyncTest, ACompletionMayDestroyItsSession) {
  struct Last {
    Session session;
    Waiter end;
  } last{MakeSession(), {}};
  float y[4] = {};
  Completion destroy{[](const Completion& self, const Status& status) {
                       auto* last = static_cast<Last*>(self.user);
                       last->session = Session();
                       Completion end = last->end.completion();
                       end.call(end, status);
                     },
                     &last};
  ASSERT_TRUE(Add(&last.session, y, destroy).ok());
  EXPECT_TRUE(last.end.WaitFor(1).ok());
  EXPECT_EQ(runtime_.session_count(), 0u);
}

// The run could never begin, because the only worker is busy here.
TEST_P(AsyncTest, ACompletionThatDestroysItsSessionTakesBackTheNextRun) {
  struct Last {
    AsyncTest* test;
    Session session;
    Waiter next, end;
    float y[4] = {};
  } last{this, MakeSession(), {}, {}};
  Completion destroy{[](const Completion& self, const Status& status) {
                       auto* last = static_cast<Last*>(self.user);
                       EXPECT_TRUE(last->test->Add(&last->session, last->y, last->next.completion()).ok());
                       EXPECT_EQ(last->session.Wait().code(), Code::kFailedPrecondition);
                       last->session = Session();
                       Completion end = last->end.completion();
                       end.call(end, status);
                     },
                     &last};
  ASSERT_TRUE(Add(&last.session, last.y, destroy).ok());
  EXPECT_TRUE(last.end.WaitFor(1).ok());
  Status taken_back = last.next.WaitFor(1);
  EXPECT_EQ(taken_back.code(), Code::kAborted);
  EXPECT_STREQ(taken_back.message(), "the session was destroyed before its run began");
  EXPECT_EQ(runtime_.session_count(), 0u);
}

TEST_P(AsyncTest, DestroyingASessionWaitsForItsRun) {
  for (int i = 0; i < 20; ++i) {
    float y[4] = {};
    {
      Session session = MakeSession();
      ASSERT_TRUE(Add(&session, y, Completion()).ok());
    }
    EXPECT_EQ(y[3], 160);
  }
}

TEST_P(AsyncTest, ManySessionsShareFewWorkers) {
  Make(2);
  constexpr int kSessions = 16, kRuns = 20;
  std::vector<Session> sessions;
  for (int i = 0; i < kSessions; ++i) sessions.push_back(MakeSession());
  std::vector<float> y(kSessions * 4);
  for (int run = 0; run < kRuns; ++run) {
    for (int i = 0; i < kSessions; ++i) {
      Status status = Add(&sessions[i], &y[i * 4], Completion());
      if (status.code() == Code::kFailedPrecondition) {  // its previous run is still in the queue
        EXPECT_TRUE(sessions[i].Wait().ok());
        status = Add(&sessions[i], &y[i * 4], Completion());
      }
      ASSERT_TRUE(status.ok()) << status.message();
    }
  }
  for (Session& session : sessions) {
    EXPECT_TRUE(session.Wait().ok());
    float total[4] = {};
    ASSERT_TRUE(session.ReadState("total", total, 16).ok());
    EXPECT_EQ(total[0], 10.0f * kRuns);
  }
  EXPECT_EQ(runtime_.metrics().queue_wait.count, static_cast<uint64_t>(kSessions * kRuns));
}

TEST_P(AsyncTest, WithoutWorkersItIsRefused) {
  Make(0);
  Session session = MakeSession();
  float y[4] = {};
  Status status = Add(&session, y, Completion());
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_STREQ(status.message(), "the runtime was made without asynchronous workers; set async_workers");
  EXPECT_TRUE(session.idle());
}

// Counts threads, and refuses one of them on request.
struct Threads {
  int started = 0, joined = 0, refuse = -1;
  ThreadHooks hooks() {
    return {[](void* user, void* (*entry)(void*), void* argument, void** thread) {
              auto* self = static_cast<Threads*>(user);
              if (self->started == self->refuse) return 11;
              ++self->started;
              return DefaultThreadHooks().start(nullptr, entry, argument, thread);
            },
            [](void* user, void* thread) {
              ++static_cast<Threads*>(user)->joined;
              DefaultThreadHooks().join(nullptr, thread);
            },
            this};
  }
};

TEST_P(AsyncTest, TheEmbedderStartsTheThreads) {
  Threads threads;
  ThreadHooks hooks = threads.hooks();
  Make(3, &hooks);
  EXPECT_EQ(threads.started, 3);
  runtime_ = Runtime();
  EXPECT_EQ(threads.joined, 3);
}

TEST_P(AsyncTest, AThreadThatCannotBeStartedIsAnErrorAndTheOthersEnd) {
  Threads threads;
  threads.refuse = 2;
  ThreadHooks hooks = threads.hooks();
  RuntimeOptions options;
  options.async_workers = 4;
  options.threads = &hooks;
  Status status = Runtime::Create(driver_.get(), options).status();
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_STREQ(status.message(), "asynchronous worker 3 of 4 could not be started (error 11)");
  EXPECT_EQ(threads.joined, 2);
  options.async_workers = 65;
  EXPECT_EQ(Runtime::Create(driver_.get(), options).status().code(), Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Drivers, AsyncTest, testing::ValuesIn(DriverNames()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rondo
