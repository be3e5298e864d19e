// The memory of every value of a program: lifetimes, in-place updates, offsets.
#include "compiler/memory/plan_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "compiler/memory/in_place.h"
#include "tests/compile/hand_made.h"

namespace rondo {
namespace {

// Values alive at the same step never share a byte, unless one takes over the other there.
void ExpectNoOverlap(const LoweredProgram& program, const MemoryPlan& plan) {
  for (size_t a = 0; a < program.values.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const Life &x = plan.lives[a], &y = plan.lives[b];
      if (!InArena(program.values[a].kind) || !InArena(program.values[b].kind)) continue;
      if (!x.used() || !y.used() || x.first > y.last || y.first > x.last) continue;
      if (plan.takes_over[a] == static_cast<int>(b) && x.first == y.last) continue;
      if (plan.takes_over[b] == static_cast<int>(a) && y.first == x.last) continue;
      const bool apart = plan.offsets[a] + program.values[a].bytes <= plan.offsets[b] ||
                         plan.offsets[b] + program.values[b].bytes <= plan.offsets[a];
      EXPECT_TRUE(apart) << "values " << a << " and " << b;
    }
  }
  for (size_t v = 0; v < program.values.size(); ++v) {
    if (!InArena(program.values[v].kind)) continue;
    EXPECT_EQ(plan.offsets[v] % kArenaAlignment, 0);
    EXPECT_LE(plan.offsets[v] + program.values[v].bytes, plan.arena_bytes);
  }
}

TEST(Lifetimes, InputsBeginAtStepZeroAndOutputsEndAtTheLast) {
  HandMade made;
  const int x = made.Input("x", 16), unread = made.Input("unread", 16);
  const int t = made.Temporary(16), never = made.Temporary(16);
  const int early = made.Output("early", 16), late = made.Output("late", 16);
  const int w = made.Constant("w", std::vector<float>(16, 1.0f));
  const int s = made.State("s", 16);
  made.Sum({w, s}, early);
  made.Sum({w, x}, t);
  made.Sum({t, w}, late);
  const auto lives = Lifetimes(made.program());
  auto expect = [&](int v, int first, int last) {
    EXPECT_EQ(lives[static_cast<size_t>(v)].first, first) << v;
    EXPECT_EQ(lives[static_cast<size_t>(v)].last, last) << v;
  };
  expect(x, 0, 1);
  expect(t, 1, 2);
  expect(early, 0, 2);
  expect(late, 2, 2);
  expect(unread, 1, 0);
  expect(never, 1, 0);
  expect(w, 0, 0);
  expect(s, 0, 0);
}

TEST(InPlace, AChainOfMapsIsOnePieceOfMemory) {
  HandMade made;
  const int x = made.Input("x", 1000);
  int last = made.Temporary(1000);
  const int first = last;
  made.Sum({x}, last);
  for (int i = 0; i < 5; ++i) {
    const int next = made.Temporary(1000);
    made.Sum({last}, next);
    EXPECT_EQ(made.program().ops.back().in_place.size(), 1u);
    last = next;
  }
  made.Sum({last}, made.Output("y", 1000));
  const MemoryPlan plan = PlanMemory(made.program());
  ExpectNoOverlap(made.program(), plan);
  EXPECT_EQ(plan.in_place, 5);
  EXPECT_EQ(plan.offsets[static_cast<size_t>(first)], plan.offsets[static_cast<size_t>(last)]);
  EXPECT_EQ(plan.arena_bytes, 2 * 4032);  // a temporary and an output, 4000 bytes rounded up to 64
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound);
}

TEST(InPlace, AValueThatIsReadLaterKeepsItsMemory) {
  HandMade made;
  const int x = made.Input("x", 64), a = made.Temporary(64), b = made.Temporary(64), y = made.Output("y", 64);
  made.Sum({x}, a);
  made.Sum({a}, b);
  made.Sum({a, b}, y);
  const MemoryPlan plan = PlanMemory(made.program());
  ExpectNoOverlap(made.program(), plan);
  EXPECT_EQ(plan.in_place, 0);
  EXPECT_NE(plan.offsets[static_cast<size_t>(a)], plan.offsets[static_cast<size_t>(b)]);
}

TEST(InPlace, OnlyTemporariesOfOneSizeThatNothingElseOfTheOpTouches) {
  struct Case {
    const char* name;
    int64_t from, to;
    bool input, output, twice;
    int in_place;
  };
  const Case kCases[] = {
      {"plain", 64, 64, false, false, false, 1},     {"an input", 64, 64, true, false, false, 0},
      {"an output", 64, 64, false, true, false, 0},  {"a larger one", 128, 64, false, false, false, 0},
      {"read twice", 64, 64, false, false, true, 0},
  };
  for (const Case& c : kCases) {
    HandMade made;
    const int x = made.Input("x", c.from);
    const int from = c.input ? x : made.Temporary(c.from);
    if (!c.input) made.Sum({x}, from);
    const int to = c.output ? made.Output("y", c.to) : made.Temporary(c.to);
    made.Sum(c.twice ? std::vector<int>{from, from} : std::vector<int>{from}, to);
    made.program().ops.back().in_place = {{c.twice ? 2 : 1, 0}};
    if (!c.output) made.Sum({to}, made.Output("y", c.to));
    const MemoryPlan plan = PlanMemory(made.program());
    ExpectNoOverlap(made.program(), plan);
    EXPECT_EQ(plan.in_place, c.in_place) << c.name;
  }
}

// A loop must not overwrite an outside value that it reads, because the next round reads it again.
TEST(InPlace, RoundsOfALoopTakeOverWhatTheyMade) {
  for (const bool made_before : {false, true}) {
    HandMade made;
    const int a = made.Temporary(64), b = made.Temporary(64);
    made.Sum({made.Input("x", 64)}, a);
    made.Sum({a}, b);
    made.Sum({b}, made.Output("y", 64));
    made.program().loops = {3};
    for (LoweredOp& op : made.program().ops) op.loop = made_before ? -1 : 0;
    made.program().ops[1].loop = 0;
    const MemoryPlan plan = PlanMemory(made.program());
    ExpectNoOverlap(made.program(), plan);
    EXPECT_EQ(plan.in_place, made_before ? 0 : 1);
  }
}

TEST(InPlace, OneValueIsTakenOverOnce) {
  HandMade made;
  const int x = made.Input("x", 64), a = made.Temporary(64), b = made.Temporary(64);
  made.Sum({x}, a);
  made.Sum({a}, b);
  // A second result of the same op that could also take over `a`.
  LoweredOp& op = made.program().ops.back();
  const int c = made.Temporary(64);
  op.params.push_back({c, 0, Mode::kWrite});
  op.in_place.push_back({2, 0});
  made.Sum({b, c}, made.Output("y", 64));
  const MemoryPlan plan = PlanMemory(made.program());
  ExpectNoOverlap(made.program(), plan);
  EXPECT_EQ(plan.in_place, 1);
}

// Whatever the order, nothing reads the input of a collective after its start, unless a reader may.
TEST(InPlace, ACollectivesInputEndsAtItsStartIfAllOtherReadersRunBefore) {
  for (const bool read_later : {false, true}) {
    HandMade made;
    const int x = made.Input("x", 64), from = made.Temporary(64), to = made.Temporary(64);
    made.Sum({x}, from);
    const int sum = made.Start(CollectiveOp::kAllReduce, from, to);
    if (read_later) made.Sum({from}, made.Output("y", 64));
    made.Wait(sum);
    made.Sum({to}, made.Output("z", 64));
    const std::vector<TakeOver> pairs = MayTakeOver(made.program())[1];
    ASSERT_EQ(pairs.size(), 1u);
    EXPECT_EQ(pairs[0].write, to);
    EXPECT_EQ(pairs[0].read, from);
    EXPECT_EQ(pairs[0].bytes, 256);
    EXPECT_EQ(pairs[0].at_start, !read_later);
  }
}

TEST(PlanMemory, MeetsTheLowerBoundOnChains) {
  HandMade made;
  int last = made.Input("x", 100);
  const int64_t kSizes[] = {500, 20, 3000, 1, 700, 64, 2000};
  for (int64_t size : kSizes) {
    const int next = made.Temporary(size);
    made.Sum({last}, next);
    last = next;
  }
  made.Sum({last}, made.Output("y", 10));
  const MemoryPlan plan = PlanMemory(made.program());
  ExpectNoOverlap(made.program(), plan);
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound);
}

TEST(PlanMemory, AnInputThatNothingReadsHasMemoryOfItsOwnAtTheStart) {
  HandMade made;
  const int x = made.Input("x", 64), unread = made.Input("unread", 64);
  made.Sum({x}, made.Output("y", 64));
  const MemoryPlan plan = PlanMemory(made.program());
  EXPECT_FALSE(plan.lives[static_cast<size_t>(unread)].used());
  EXPECT_NE(plan.offsets[static_cast<size_t>(x)], plan.offsets[static_cast<size_t>(unread)]);
}

TEST(PlanMemory, RandomProgramsNeverOverlap) {
  uint64_t state = 5;
  auto below = [&](size_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state >> 33) % n;
  };
  for (int round = 0; round < 20; ++round) {
    HandMade made;
    std::vector<int> known = {made.Input("x", 64), made.Input("z", 640)};
    for (int i = 0; i < 40; ++i) {
      const int64_t kSizes[] = {64, 64, 640, 100};
      const int next =
          i % 13 == 12 ? made.Output("y" + std::to_string(i), 64) : made.Temporary(kSizes[below(4)]);
      made.Sum({known[known.size() - 1 - below(std::min<size_t>(known.size(), 6))],
                known[known.size() - 1 - below(std::min<size_t>(known.size(), 3))]},
               next);
      known.push_back(next);
    }
    const MemoryPlan plan = PlanMemory(made.program());
    ExpectNoOverlap(made.program(), plan);
    EXPECT_GE(plan.arena_bytes, plan.lower_bound);
  }
}

}  // namespace
}  // namespace rondo
