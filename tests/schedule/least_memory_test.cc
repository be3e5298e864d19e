// The order of steps: deps hold, the peak of live bytes never grows, and known bad orders improve.
#include "compiler/schedule/least_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "compiler/memory/lifetimes.h"
#include "tests/compile/hand_made.h"

namespace rondo {
namespace {

// The peak by definition, without donation: for every step, the bytes of all values that live there.
int64_t PeakByDefinition(const LoweredProgram& program) {
  const auto lives = Lifetimes(program);
  int64_t peak = 0;
  for (int step = 0; step < static_cast<int>(program.ops.size()); ++step) {
    int64_t sum = 0;
    for (size_t v = 0; v < program.values.size(); ++v) {
      if (!InArena(program.values[v].kind) || !lives[v].used()) continue;
      if (lives[v].first <= step && step <= lives[v].last) sum += (program.values[v].bytes + 63) / 64 * 64;
    }
    peak = std::max(peak, sum);
  }
  return peak;
}

void ForbidDonation(LoweredProgram* program) {
  for (LoweredOp& op : program->ops) op.in_place.clear();
}

// Four wide branches, which all begin before any of them ends.
HandMade Branches() {
  HandMade made;
  const int x = made.Input("x", 16);
  std::vector<int> wide, narrow;
  for (int i = 0; i < 4; ++i) {
    wide.push_back(made.Temporary(1600));
    made.Sum({x}, wide.back());
  }
  for (int i = 0; i < 4; ++i) {
    narrow.push_back(made.Temporary(16));
    made.Sum({wide[static_cast<size_t>(i)]}, narrow.back());
  }
  made.Sum(narrow, made.Output("y", 16));
  ForbidDonation(&made.program());
  return made;
}

TEST(Schedule, FinishesOneBranchBeforeItBeginsTheNext) {
  HandMade made = Branches();
  const int64_t before = PeakByDefinition(made.program());
  const ScheduleReport report = ScheduleForLeastMemory(&made.program());
  EXPECT_EQ(report.peak_before, before);
  EXPECT_EQ(report.peak_after, PeakByDefinition(made.program()));
  EXPECT_LE(report.peak_after, 6400 + 5 * 64);
  EXPECT_GT(report.peak_before, 4 * 6400);
}

TEST(Schedule, LeavesAProgramAloneThatNoOrderImproves) {
  HandMade made;
  int last = made.Input("x", 16);
  for (int i = 0; i < 5; ++i) {
    const int next = made.Temporary(16);
    made.Sum({last}, next, "node" + std::to_string(i));
    last = next;
  }
  made.Sum({last}, made.Output("y", 16), "end");
  const ScheduleReport report = ScheduleForLeastMemory(&made.program());
  EXPECT_EQ(report.method, "given order");
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(made.program().ops[static_cast<size_t>(i)].sources[0], "Sum \"node" + std::to_string(i) + "\"");
  }
}

// Even if the peak is already as low as possible, a value is computed no earlier than needed.
TEST(Schedule, AValueIsMadeWhenItIsNeeded) {
  HandMade made;
  const int x = made.Input("x", 16), early = made.Temporary(100), a = made.Temporary(16),
            b = made.Temporary(16);
  const int c = made.Temporary(16), wide = made.Temporary(1600), wider = made.Temporary(3200);
  made.Sum({x}, early, "early");
  made.Sum({x}, a, "a");
  made.Sum({a}, b, "b");
  made.Sum({b, early}, c, "c");
  made.Sum({c}, wide, "wide");
  made.Sum({wide}, wider, "wider");
  made.Sum({wider}, made.Output("y", 16), "y");
  ForbidDonation(&made.program());
  const ScheduleReport report = ScheduleForLeastMemory(&made.program());
  EXPECT_EQ(report.peak_after, report.peak_before);
  EXPECT_EQ(made.program().ops[2].sources[0], "Sum \"early\"") << report.text;
}

TEST(Schedule, AValueWrittenOverInPlaceCountsOnce) {
  HandMade made;
  const int x = made.Input("x", 16), a = made.Temporary(1600), b = made.Temporary(1600);
  made.Sum({x}, a);
  made.Sum({a}, b);
  made.Sum({b}, made.Output("y", 16));
  EXPECT_EQ(PeakLiveBytes(made.program(), GivenOrder(made.program())), 6400 + 64);
  ForbidDonation(&made.program());
  EXPECT_EQ(PeakLiveBytes(made.program(), GivenOrder(made.program())), 2 * 6400);
}

TEST(Schedule, WhatARoundHoldsCountsWhileTheLoopRuns) {
  HandMade body;
  const int in = body.Input("in", 16), wide = body.Temporary(1600), wider = body.Temporary(3200);
  body.Sum({in}, wide);
  body.Sum({wide}, body.Output("out", 16));
  body.Sum({in}, wider);
  auto loop = std::make_shared<LoweredLoop>();
  loop->body = body.Take();
  HandMade made;
  const int x = made.Input("x", 16);
  LoweredOp& op = made.program().ops[static_cast<size_t>(made.Sum({x}, made.Output("y", 16)))];
  op.kind = LoweredKind::kLoop;
  op.rounds = loop;
  EXPECT_EQ(PeakLiveBytes(made.program(), GivenOrder(made.program())), 2 * 64 + 12'800);
}

// A program with many short and long edges; ops of one layer may stand in any order.
LoweredProgram Random(uint64_t seed, int ops) {
  uint64_t state = seed * 31 + 7;
  auto below = [&](size_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state >> 33) % n;
  };
  HandMade made;
  std::vector<int> known = {made.Input("x", 64)};
  for (int i = 0; i < ops; ++i) {
    const int next = made.Temporary(static_cast<int64_t>(16 << below(6)), "v" + std::to_string(i));
    std::vector<int> from = {known[known.size() - 1 - below(std::min<size_t>(known.size(), 12))]};
    if (below(3) == 0) from.push_back(known[known.size() - 1 - below(std::min<size_t>(known.size(), 40))]);
    made.Sum(from, next, "n" + std::to_string(i));
    known.push_back(next);
  }
  made.Sum({known.back()}, made.Output("y", 16), "end");
  return made.Take();
}

TEST(Schedule, EveryOpComesAfterWhatItDependsOn) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    LoweredProgram program = Random(seed, 80);
    const LoweredProgram original = Random(seed, 80);
    const ScheduleReport report = ScheduleForLeastMemory(&program);
    EXPECT_LE(report.peak_after, report.peak_before);
    EXPECT_EQ(report.peak_after, PeakLiveBytes(program, GivenOrder(program)));
    ASSERT_EQ(program.ops.size(), original.ops.size());
    // Checks by name that every op occurs once, after its deps.
    std::vector<int> position(program.ops.size(), -1);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      for (size_t o = 0; o < original.ops.size(); ++o) {
        if (original.ops[o].sources == program.ops[i].sources) position[o] = static_cast<int>(i);
      }
    }
    for (size_t o = 0; o < original.ops.size(); ++o) {
      ASSERT_GE(position[o], 0);
      std::vector<int> deps;
      for (int d : original.ops[o].deps) {
        EXPECT_LT(position[static_cast<size_t>(d)], position[o]);
        deps.push_back(position[static_cast<size_t>(d)]);
      }
      std::sort(deps.begin(), deps.end());
      EXPECT_EQ(program.ops[static_cast<size_t>(position[o])].deps, deps);
    }
  }
}

TEST(Schedule, GivesTheSameOrderEveryTime) {
  LoweredProgram a = Random(4, 150), b = Random(4, 150);
  ScheduleForLeastMemory(&a);
  ScheduleForLeastMemory(&b);
  for (size_t i = 0; i < a.ops.size(); ++i) EXPECT_EQ(a.ops[i].sources, b.ops[i].sources);
}

TEST(Schedule, ThreeThousandOpsTakeSeconds) {
  LoweredProgram program = Random(1, 3000);
  const auto start = std::chrono::steady_clock::now();
  ScheduleForLeastMemory(&program);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace rondo
