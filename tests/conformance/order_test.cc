// Streams, events, and several threads.
#include <atomic>
#include <chrono>
#include <thread>

#include "core/stop.h"
#include "tests/conformance/conformance.h"

namespace rondo::test {
namespace {

class Order : public Conformance {
 protected:
  Order() : kernels_(kElements) {}
  SimpleKernels kernels_;
};
CONFORMANCE_SUITE(Order);

TEST_P(Order, OfOneStreamIsThatOfItsCalls) {
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  const DeviceAddress x = Take(kBytes), twice = Take(kBytes);
  const Floats ones(kElements, 1);
  for (int round = 0; round < 50; ++round) {
    ExpectOk(device_->Fill(twice, 0xff, kBytes, stream_));
    ExpectOk(device_->CopyIn(x, ones.data(), kBytes, stream_));
    for (uint32_t step = 0; step < 5; ++step) {  // x = 2 x
      Launch(module, SimpleKernels::kAdd, {x, x, twice}, step);
      ExpectOk(device_->Copy(x, twice, kBytes, stream_));
    }
    if (round % 10 == 9) {
      EXPECT_EQ(Get(x), Floats(kElements, 32));
    }
  }
}

TEST_P(Order, WhatIsCopiedOutIsAsItWasThen) {
  const DeviceAddress x = Put(Counting(1));
  Floats before(kElements), after(kElements);
  ExpectOk(device_->CopyOut(before.data(), x, kBytes, stream_));
  ExpectOk(device_->Fill(x, 0, kBytes, stream_));
  ExpectOk(device_->CopyOut(after.data(), x, kBytes, stream_));
  Sync();
  EXPECT_EQ(before, Counting(1));
  EXPECT_EQ(after, Floats(kElements, 0));
}

TEST_P(Order, OfTwoStreamsIsThatOfTheirEvents) {
  NEEDS_OF_INFO(driver_->Info().max_streams > 1, "second stream");
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  Stream* second = MakeStream();
  Event *there = MakeEvent(), *back = MakeEvent();
  const DeviceAddress x = Put(Floats(kElements, 1)), y = Take(kBytes);
  for (uint32_t round = 0; round < 20; ++round) {  // on one stream y = x + x, on the other x = y
    Launch(module, SimpleKernels::kAdd, {x, x, y}, round);
    ExpectOk(device_->Record(there, stream_));
    ExpectOk(device_->Wait(there, second));
    ExpectOk(device_->Copy(x, y, kBytes, second));
    ExpectOk(device_->Record(back, second));
    ExpectOk(device_->Wait(back, stream_));
  }
  EXPECT_EQ(Get(x), Floats(kElements, 1 << 20));
  Sync(second);
}

TEST_P(Order, AnEventThatNobodyRecordedHoldsNobodyUp) {
  ExpectOk(device_->Wait(MakeEvent(), stream_));
  EXPECT_EQ(Get(Put(Counting(1))), Counting(1));
}

TEST_P(Order, TimedEventsTellHowLongItTook) {
  Result<Event*> begin = device_->CreateTimedEvent();
  if (begin.status().code() == Code::kUnsupported) GTEST_SKIP() << begin.status().message();
  ASSERT_TRUE(begin.ok()) << begin.status().message();
  Event* end = device_->CreateTimedEvent().Take();
  const DeviceAddress x = Put(Counting(1));
  const auto start = std::chrono::steady_clock::now();
  ExpectOk(device_->Record(*begin, stream_));
  ExpectOk(device_->Copy(x, x, 0, stream_));
  ExpectOk(device_->Record(end, stream_));
  Sync();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  const Result<double> microseconds = device_->ElapsedMicroseconds(*begin, end);
  ASSERT_TRUE(microseconds.ok()) << microseconds.status().message();
  EXPECT_GE(*microseconds, 0);
  EXPECT_LE(*microseconds, took.count() * 1.5 + 100);
  device_->DestroyEvent(end);
  device_->DestroyEvent(*begin);
}

TEST_P(Order, AStopSignalEndsWhatIsEnqueuedOrNothing) {
  Stream* stream = MakeStream();
  StopSignal stop;
  device_->SetStop(stream, &stop);
  const DeviceAddress x = Put(Counting(1));
  stop.Begin(0);
  ExpectOk(device_->Fill(x, 0, 8, stream));
  Sync(stream);
  stop.Cancel();
  ExpectOk(device_->Fill(x + 8, 0, 8, stream));
  uint32_t step = kNone;
  const Status stopped = device_->Synchronize(stream, &step);
  EXPECT_TRUE(stopped.ok() || stopped.code() == Code::kCancelled) << stopped.message();
  stop.End();
  ExpectOk(device_->Fill(x + 16, 0, 8, stream));
  Sync(stream);
  const Floats got = Get(x);
  EXPECT_EQ(got[1], 0);
  EXPECT_EQ(got[3], stopped.ok() ? 0 : 3);
  EXPECT_EQ(got[5], 0);
  EXPECT_EQ(got[6], 6);
}

TEST_P(Order, ThreadsWithAStreamEachDoNotMeet) {
  NEEDS_OF_INFO(driver_->Info().max_streams > 3, "stream for each of four threads");
  constexpr size_t kThreads = 4;
  Module* module = Load(kernels_.plan);
  ASSERT_NE(module, nullptr);
  std::vector<DeviceAddress> x(kThreads), y(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    x[t] = Put(Counting(static_cast<float>(t + 1)));
    y[t] = Take(kBytes);
  }
  std::vector<Stream*> streams;
  for (size_t t = 0; t < kThreads; ++t) streams.push_back(MakeStream());
  std::vector<int> good(kThreads, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<DeviceAddress> addresses = {x[t], x[t], y[t]};
      for (int round = 0; round < 20; ++round) {
        Floats back(kElements);
        uint32_t step = kNone;
        bool ok = device_->Fill(y[t], 0xff, kBytes, streams[t]).ok();
        ok &= device_->Launch(module, SimpleKernels::kAdd, addresses, streams[t], 0).ok();
        ok &= device_->CopyOut(back.data(), y[t], kBytes, streams[t]).ok();
        ok &= device_->Synchronize(streams[t], &step).ok();
        good[t] += ok && back == Counting(2 * static_cast<float>(t + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(kThreads, 20));
}

}  // namespace
}  // namespace rondo::test
