// Loops of steps: one broken plan for each rule of the verifier and of the checker, and the fields that a
// file keeps of them.
#include <gtest/gtest.h>

#include <string>

#include "formats/plan/device_memory.h"
#include "tests/plan/broken.h"
#include "tests/plan/loop_plan.h"
#include "tests/plan/round_trip.h"

namespace rondo {
namespace {

TEST(Loops, TheSampleIsVerifiedAndProven) {
  const Sample s = MakeLoopSample();
  ExpectVerifiedAndProven(s.data);
}

TEST(Loops, AFileKeepsThem) {
  const Sample s = MakeLoopSample();
  Arena arena;
  Result<PlanFile> read = RoundTrip(s, arena);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const Program& program = read->data.programs[0];
  ASSERT_EQ(program.loops.size(), 1u);
  EXPECT_EQ(program.loops[0].first_step, 1u);
  EXPECT_EQ(program.loops[0].num_steps, 4u);
  EXPECT_EQ(program.loops[0].trips, kLoopRounds);
  EXPECT_EQ(program.steps[1].bindings[0].stride, 16);
  EXPECT_EQ(program.steps[1].bindings[1].stride, 0);
  EXPECT_EQ(program.steps[4].bindings[1].stride, -16);
}

// Whatever precedes them in the file, loops are aligned.
TEST(Loops, AFileKeepsThemAligned) {
  for (size_t length = 1; length <= 16; ++length) {
    Sample s = MakeLoopSample();
    ProgramOf(s, 0).name = s.arena.CopyText(std::string(length, 'p'));
    Arena arena;
    Result<PlanFile> read = RoundTrip(s, arena);
    ASSERT_TRUE(read.ok()) << length << ": " << read.status().message();
    EXPECT_EQ(read->data.programs[0].loops.size(), 1u);
  }
}

TEST(Loops, TurnsAreTakenAsIfTheListHeldThem) {
  const Sample s = MakeLoopSample();
  const Program& program = s.data.programs[0];
  std::string taken;
  for (StepInRound at; at.step < program.steps.size(); at = Next(program, at)) {
    taken += std::to_string(at.step) + "." + std::to_string(at.round) + " ";
  }
  EXPECT_EQ(taken,
            "0.0 1.0 2.0 3.0 4.0 1.1 2.1 3.1 4.1 1.2 2.2 3.2 4.2 1.3 2.3 3.3 4.3 1.4 2.4 3.4 4.4 5.0 ");
}

TEST(Loops, EveryRoundIsANodeOfAGraph) {
  const Sample s = MakeLoopSample();
  EXPECT_EQ(NeedsOn(s.data, 0).nodes, uint64_t{2 + 4 * kLoopRounds});
}

// Each round reads the row that the round before wrote, without a buffer in between.
TEST(Loops, ARowMayBeReadFromTheRowBefore) {
  Sample s = MakeLoopSample();
  // G = X[r] + Y[r - 1], into Y[r] as E: the first round's row is written before the loop.
  BufferOf(s, kLoopH).bytes = 6 * 16;
  BufferOf(s, kLoopH).shape = Shape{6, 4};
  BufferOf(s, kLoopH).offset = 512;
  Edit(s.data.requirements.devices, 0).arena = ProgramOf(s, 0).arena_bytes = 1024;
  ProgramOf(s, 0).arena_lower_bound = 1024;
  BindingOf(s, 1, 1).stride = 16;
  BindingOf(s, 3, 1) = {kLoopH, 16, 16};
  BindingOf(s, 5, 0).offset = 5 * 16;
  ExpectVerifiedAndProven(s.data);
  // If it reads two rows back, the second round reads a row that nothing has written.
  BindingOf(s, 3, 1) = {kLoopH, 32, 16};
  LoopIn(s).trips = 4;
  const Status status = CheckPlan(s.data);
  EXPECT_NE(std::string(status.message()).find("which no step before it has written"), std::string::npos)
      << status.message();
}

class LoopRules : public BrokenSample {};
TEST_P(LoopRules, Broken) { VerifierRefuses(MakeLoopSample()); }

const Broken kRules[] = {
    {"Empty", [](Sample& s) { LoopIn(s).num_steps = 0; }, "loop 0 repeats"},
    {"NoRounds", [](Sample& s) { LoopIn(s).trips = 0; }, "loop 0 repeats"},
    {"PastTheEnd", [](Sample& s) { LoopIn(s).num_steps = 6; }, "loop 0 repeats"},
    {"EndWraps", [](Sample& s) { LoopIn(s).num_steps = 0xffffffff; }, "loop 0 repeats"},
    {"BeginsPastTheEnd", [](Sample& s) { LoopIn(s).first_step = 6; }, "loop 0 repeats"},
    {"Overlapping",
     [](Sample& s) {
       ProgramOf(s, 0).loops = List<Loop>(s.arena, {{1, 4, 5}, {4, 2, 2}});
     },
     "loop 1 repeats"},
    {"TooLong", [](Sample& s) { LoopIn(s).trips = 1 << 19; }, "may take 1048576 steps"},
    {"Collective", [](Sample& s) { StepOf(s, 3).kind = StepKind::kCollectiveWait; },
     "in a loop of launches and copies"},
    {"Custom", [](Sample& s) { StepOf(s, 3).kind = StepKind::kCustom; }, "in a loop of launches and copies"},
    {"Streams",
     [](Sample& s) {
       ProgramOf(s, 0).num_streams = 2;
       StepOf(s, 3).stream = 1;
     },
     "on stream 1 in a loop"},
    {"Records",
     [](Sample& s) {
       ProgramOf(s, 0).num_events = 1;
       StepOf(s, 3).records = 0;
     },
     "without events"},
    {"Waits",
     [](Sample& s) {
       ProgramOf(s, 0).num_events = 1;
       StepOf(s, 0).records = 0;
       StepOf(s, 3).waits = List<uint32_t>(s.arena, {0});
     },
     "without events"},
    {"Partition",
     [](Sample& s) {
       Partition first = s.data.programs[0].partitions[0], second = first;
       first.num_steps = second.first_step = second.num_steps = 3;
       ProgramOf(s, 0).partitions = List<Partition>(s.arena, {first, second});
     },
     "inside a loop"},
    {"MovesOutside", [](Sample& s) { BindingOf(s, 0, 0).stride = 16; }, "moves by 16"},
    {"MovesPastTheEnd", [](Sample& s) { BindingOf(s, 1, 0).stride = 32; }, "moves by 32"},
    {"MovesBeforeTheBeginning", [](Sample& s) { BindingOf(s, 1, 0).stride = -16; }, "moves by -16"},
    {"TouchesPastTheEnd", [](Sample& s) { BindingOf(s, 1, 0).offset = 16; }, "bytes [16, 96)"},
    {"MovesByPartsOfAnElement", [](Sample& s) { BindingOf(s, 1, 0).stride = 2; }, "moves by 2"},
    {"MovesTooFar", [](Sample& s) { BindingOf(s, 1, 0).stride = int64_t{1} << 62; }, "moves by"},
    {"MovesWrap", [](Sample& s) { BindingOf(s, 1, 0).stride = std::numeric_limits<int64_t>::min(); },
     "moves by"},
};
INSTANTIATE_TEST_SUITE_P(All, LoopRules, testing::ValuesIn(kRules), RuleName);

class LoopProofs : public BrokenSample {};
TEST_P(LoopProofs, Broken) { CheckerRefuses(MakeLoopSample()); }

const Broken kProofs[] = {
    // H must keep step 3's result until the next round.
    {"CarriedEndsEarly", [](Sample& s) { BufferOf(s, kLoopH).last_step = 4; }, "matter from step 0 to 5"},
    {"CarriedOverlapsOwn",
     [](Sample& s) {
       BufferOf(s, kLoopG).offset = 384;
       BufferOf(s, kLoopE).aliases = kNone;
     },
     "are in use at once"},
    // A value that each round writes anew lives within a round.
    {"OwnLivesAllRounds", [](Sample& s) { BufferOf(s, kLoopG).last_step = 4; }, "matter from step 1 to 2"},
    {"ReadEachRoundEndsEarly", [](Sample& s) { BufferOf(s, kLoopX).last_step = 1; },
     "matter from step 0 to 4"},
    {"WrittenEachRoundBeginsLate", [](Sample& s) { BufferOf(s, kLoopY).first_step = 4; },
     "matter from step 1 to 5"},
    {"NothingBeforeTheFirstRound",
     [](Sample& s) {
       BindingOf(s, 0, 1).buffer = kLoopLast;
       BufferOf(s, kLoopH).first_step = 1;
       BufferOf(s, kLoopLast).first_step = 0;
       ProgramOf(s, 0).arena_lower_bound = 256;
     },
     "which no step before it has written"},
    {"OutputWithAGap",
     [](Sample& s) {
       BindingOf(s, 4, 1) = {kLoopY, 0, 0};
     },
     "reads byte 16"},
    {"OutputWithoutItsLastRow", [](Sample& s) { LoopIn(s).trips = 4; }, "reads byte 0 of buffer 2"},
    // A value that a later round reads again cannot be taken over.
    {"TakesOverWhatTheNextRoundReads",
     [](Sample& s) {
       // START is not copied: H is read in its place, and G takes it over in the loop.
       BindingOf(s, 1, 1).buffer = kLoopStart;
       BufferOf(s, kLoopStart).last_step = 4;
       BufferOf(s, kLoopG).aliases = kLoopStart;
       BufferOf(s, kLoopE).aliases = kNone;
       BufferOf(s, kLoopG).offset = 128;
     },
     "are in use at once"},
    {"TwoThatMoveApartMeet",
     [](Sample& s) {
       StepOf(s, 1).bindings = List<Binding>(s.arena, {{kLoopY, 0, 16}, {kLoopH, 0}, {kLoopY, 64, -16}});
       BufferOf(s, kLoopX).last_step = 0;
       BufferOf(s, kLoopX).first_step = 1;
       StepOf(s, 2).bindings = List<Binding>(s.arena, {{kLoopH, 0}, {kLoopE, 0}});
       BufferOf(s, kLoopG).first_step = 1;
       BufferOf(s, kLoopG).last_step = 0;
       BufferOf(s, kLoopE).aliases = kNone;
     },
     "not element by element"},
};
INSTANTIATE_TEST_SUITE_P(All, LoopProofs, testing::ValuesIn(kProofs), RuleName);

}  // namespace
}  // namespace rondo
