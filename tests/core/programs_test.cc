// Programs as plain data: the order of their steps, and what collectives read and write.
#include <gtest/gtest.h>

#include <vector>

#include "core/collective.h"
#include "core/plan.h"

namespace rondo {
namespace {

using Turns = std::vector<std::pair<uint32_t, uint32_t>>;

TEST(Turns, AreEachStepOnceAndThoseOfALoopOnceARound) {
  const std::vector<std::vector<Loop>> kLoops = {
      {}, {{0, 1, 3}}, {{2, 2, 3}, {4, 1, 2}}, {{1, 3, 1}, {6, 2, 4}}};
  constexpr uint32_t kSteps = 8;
  for (const std::vector<Loop>& loops : kLoops) {
    Program program;
    program.loops = {loops.data(), loops.size()};
    Turns expected;
    for (uint32_t step = 0; step < kSteps;) {
      Loop loop{step, 1, 1};
      for (const Loop& l : loops) loop = l.first_step == step ? l : loop;
      for (uint32_t round = 0; round < loop.trips; ++round) {
        for (uint32_t s = step; s < loop.end(); ++s) {
          expected.push_back({s, round});
          EXPECT_EQ(RoundsOf(program, s), loop.trips);
        }
      }
      step = loop.end();
    }
    Turns visited;
    for (StepInRound at{0, 0}; at.step < kSteps && visited.size() < 100; at = Next(program, at))
      visited.push_back({at.step, at.round});
    EXPECT_EQ(visited, expected);
  }
}

TEST(Collectives, ReadAndWriteWhatTheyAreFor) {
  const std::vector<uint32_t> participants = {0, 1, 2, 3};
  SyncPoint point;
  point.bytes = 100;
  point.participants = {participants.data(), participants.size()};
  struct Bytes {
    CollectiveOp op;
    uint64_t read, written;
    int64_t apart;  // the offset of participant 3
  };
  for (const Bytes& b : {Bytes{CollectiveOp::kAllReduce, 100, 100, 0},
                         {CollectiveOp::kAllGather, 100, 400, 300},
                         {CollectiveOp::kReduceScatter, 400, 100, -300},
                         {CollectiveOp::kBroadcast, 100, 100, 0},
                         {CollectiveOp::kAllToAll, 100, 100, kNeverInPlace}}) {
    point.op = b.op;
    EXPECT_EQ(BytesRead(point, 3), b.read) << static_cast<int>(b.op);
    EXPECT_EQ(BytesWritten(point, 3), b.written) << static_cast<int>(b.op);
    EXPECT_EQ(InPlaceDistance(point, 3), b.apart) << static_cast<int>(b.op);
    EXPECT_EQ(InPlaceDistance(point, 0), b.apart == kNeverInPlace ? b.apart : 0);
  }
  point.op = CollectiveOp::kSend;  // from the first to the second
  EXPECT_EQ(BytesRead(point, 0), 100u);
  EXPECT_EQ(BytesWritten(point, 0), 0u);
  EXPECT_EQ(BytesRead(point, 1), 0u);
  EXPECT_EQ(BytesWritten(point, 1), 100u);
}

}  // namespace
}  // namespace rondo
