// What the checker knows of order: streams, events and collectives in flight. Also its speed.
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <vector>

#include "formats/plan/check/checker.h"
#include "tests/plan/plan_maker.h"

namespace rondo {
namespace {

// in -> a on stream 0, a -> out on stream 1.
void TwoStreams(Maker& m, bool event, bool after) {
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512);
  m.Copy(m.kIn, a);
  m.Copy(a, m.kOut, 64, 0, 0, 1);
  if (event) {
    m.events = 1;
    m.steps[0].records = 0;
    m.steps[1].waits = List<uint32_t>(m.arena, {0});
  }
  if (after) m.steps[1].after = List<uint32_t>(m.arena, {0});
}

TEST(CheckerStreams, ListOrderIsNoOrder) {
  Maker m;
  TwoStreams(m, false, false);
  EXPECT_BROKEN(m, "no stream, event or wait orders the two");
}

TEST(CheckerStreams, EventsOrder) {
  Maker m;
  TwoStreams(m, true, false);
  EXPECT_GOOD(m);
}

TEST(CheckerStreams, AfterOrders) {
  Maker m;
  TwoStreams(m, false, true);
  EXPECT_GOOD(m);
}

TEST(CheckerStreams, OrderIsTransitive) {
  Maker m;
  const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), b = m.AddBuffer("b", kTemp, 64, 1024);
  m.events = 2;
  m.Copy(m.kIn, a).records = 0;
  m.Copy(m.kIn, b, 64, 0, 0, 1).waits = List<uint32_t>(m.arena, {0});
  m.Copy(b, b, 1, 0, 1, 1).records = 1;
  m.Copy(a, m.kOut, 64, 0, 0, 2).waits = List<uint32_t>(m.arena, {1});
  EXPECT_GOOD(m);
}

TEST(CheckerStreams, ReuseNeedsOrder) {
  for (bool ordered : {true, false}) {
    Maker m;
    const uint32_t a = m.AddBuffer("a", kTemp, 64, 512), b = m.AddBuffer("b", kTemp, 64, 512);
    m.Copy(m.kIn, a);
    m.Copy(a, m.kOut, 32);
    m.Copy(m.kIn, b, 64, 0, 0, 1);
    m.Copy(b, m.kOut, 32, 0, 32, 1);
    if (ordered) {
      m.events = 1;
      m.steps[1].records = 0;
      m.steps[2].waits = List<uint32_t>(m.arena, {0});
      EXPECT_GOOD(m);
    } else {
      EXPECT_BROKEN(m, "in use at once and overlap");
    }
  }
}

TEST(CheckerStreams, PiecesMayBeWrittenAtOnce) {
  Maker m;
  m.Copy(m.kIn, m.kOut, 32);
  m.Copy(m.kIn, m.kOut, 32, 0, 32, 1);
  EXPECT_GOOD(m);
  m.steps.clear();
  m.Copy(m.kIn, m.kOut, 33);
  m.Copy(m.kIn, m.kOut, 32, 0, 32, 1);
  EXPECT_BROKEN(m, "no stream, event or wait orders the two");
}

TEST(CheckerCollectives, ACollectiveInFlightKeepsItsBuffers) {
  Sample s = MakeSample();
  // out0 takes the memory of in0 and is written after the wait, which is right. Without the wait it is wrong.
  BufferOf(s, kOut0).offset = 0;
  Status status = CheckPlan(s.data);
  EXPECT_TRUE(status.ok()) << status.message();
  BufferOf(s, kIn0).last_step = 0;
  status = CheckPlan(s.data);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("matter from step 0 to 1"), std::string::npos)
      << status.message();
}

TEST(CheckerCollectives, ResultsAreReadAfterTheWait) {
  Sample s = MakeSample();
  std::swap(StepOf(s, 1, 1), StepOf(s, 2, 1));
  BufferOf(s, kOut0).first_step = 1;
  BufferOf(s, kIn0).last_step = 2;
  const Status status = CheckPlan(s.data);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("while step 0 writes it"), std::string::npos)
      << status.message();
}

TEST(CheckerCollectives, AnAllReduceMayWorkInPlace) {
  for (uint64_t shift : {0, 64}) {
    Sample s = MakeSample();
    BufferOf(s, kSum0).aliases = kIn0;
    BufferOf(s, kSum0).offset = 0;
    BufferOf(s, kSum0).bytes = 128;
    BufferOf(s, kIn0).bytes = shift == 0 ? 64 : 128;
    Edit(StepOf(s, 0, 1).bindings, 1).offset = shift / 2;
    const Status status = CheckPlan(s.data);
    EXPECT_EQ(status.ok(), shift == 0) << status.message();
  }
}

TEST(CheckerCost, ThousandsOfStepsTakeWellUnderASecond) {
  for (bool streams : {false, true}) {
    Maker m;
    const uint32_t kernel = m.AddKernel(Elementwise(m.arena), 2);
    uint32_t previous = m.kIn;
    constexpr uint32_t kSteps = 4000;
    m.events = streams ? kSteps : 0;
    for (uint32_t i = 0; i < kSteps; ++i) {
      const uint32_t next =
          i + 1 == kSteps ? m.kOut : m.AddBuffer("t", kTemp, 64, 512 + 256 * uint64_t{i % 3});
      Step& step = m.Launch(kernel, {{previous, 0}, {next, 0}}, streams ? i % 3 : 0);
      if (streams) {
        step.records = i;
        if (i > 0) step.waits = List<uint32_t>(m.arena, {i - 1});
      }
      previous = next;
    }
    const std::clock_t start = std::clock();  // CPU time of this process alone
    EXPECT_GOOD(m);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    RecordProperty(streams ? "streams" : "one_stream", std::to_string(seconds));
    EXPECT_LT(seconds, 2.0);  // under sanitizers too
  }
}

}  // namespace
}  // namespace rondo
