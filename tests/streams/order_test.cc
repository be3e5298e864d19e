// The order of ops, and which values may share memory, compared with explicit definitions.
#include "formats/plan/check/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "compiler/memory/antichain.h"
#include "compiler/memory/arena_problem.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/memory/stream_lives.h"
#include "formats/plan/verifier.h"
#include "tests/compile/hand_made.h"
#include "tests/streams/random_program.h"

namespace rondo {
namespace {

// before[b][a]: op a comes before op b by streams and deps.
std::vector<std::vector<bool>> Reachable(const LoweredProgram& program) {
  const size_t count = program.ops.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (size_t b = 0; b < count; ++b) {
    std::vector<int> edges = program.ops[b].deps;
    for (size_t a = 0; a < b; ++a) {
      if (program.ops[a].stream == program.ops[b].stream) edges.push_back(static_cast<int>(a));
    }
    for (int a : edges) {
      before[b][static_cast<size_t>(a)] = true;
      for (size_t earlier = 0; earlier < count; ++earlier) {
        if (before[static_cast<size_t>(a)][earlier]) before[b][earlier] = true;
      }
    }
  }
  return before;
}

// Whether every use of `a` ends before any use of `b` begins, by the header's definition, one use at a time.
bool UsedBefore(const LoweredProgram& program, const std::vector<std::vector<bool>>& before, size_t a,
                size_t b) {
  if (program.values[a].kind == BufferKind::kOutput || program.values[b].kind == BufferKind::kInput)
    return false;
  const auto binds = [&](size_t op, size_t v) {
    const auto& params = program.ops[op].params;
    return std::any_of(params.begin(), params.end(),
                       [&](const LoweredBinding& p) { return p.value == static_cast<int>(v); });
  };
  for (size_t first = 0; first < program.ops.size(); ++first) {
    if (!binds(first, a)) continue;
    size_t end = first;
    if (program.ops[first].kind == LoweredKind::kCollectiveStart) {
      while (program.ops[end].kind != LoweredKind::kCollectiveWait ||
             program.ops[end].collective != program.ops[first].collective)
        ++end;
    }
    for (size_t second = 0; second < program.ops.size(); ++second) {
      if (binds(second, b) && !before[second][end]) return false;
    }
  }
  return true;
}

constexpr RandomShape kShapes[] = {{2, 1, 30}, {3, 1, 40}, {4, 1, 60}, {2, 2, 40}, {3, 2, 50}, {4, 3, 60}};

TEST(StreamOrder, IsWhatStreamsAndDepsMakeOfIt) {
  for (const RandomShape& shape : kShapes) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const LoweredProgram program = RandomProgram(seed, shape);
      const StreamOrder order(program);
      const auto before = Reachable(program);
      for (size_t b = 0; b < before.size(); ++b) {
        for (size_t a = 0; a < before.size(); ++a) {
          ASSERT_EQ(order.Before(static_cast<int>(a), static_cast<int>(b)), before[b][a])
              << a << " and " << b << ", seed " << seed;
        }
      }
    }
  }
}

// No wait is implied by the others.
TEST(StreamOrder, WaitsAreNoMoreThanNeeded) {
  HandMade made;
  const int x = made.Input("x", 64), a = made.Temporary(64), b = made.Temporary(64), c = made.Temporary(64);
  made.Sum({x}, a);                        // 0, stream 0
  made.Sum({a}, b);                        // 1, stream 1: waits for 0
  made.Sum({b, a}, c);                     // 2, stream 2: waits for 1, and so for 0
  made.Sum({c, b}, made.Output("y", 64));  // 3, stream 1: waits for 2
  made.Sum({a, b}, made.Output("z", 64));  // 4, stream 2: waits for none
  for (uint32_t i = 0; i < 5; ++i) made.program().ops[i].stream = std::vector<uint32_t>{0, 1, 2, 1, 2}[i];
  const StreamOrder order(made.program());
  EXPECT_EQ(order.Waits(0), std::vector<int>{});
  EXPECT_EQ(order.Waits(1), std::vector<int>{0});
  EXPECT_EQ(order.Waits(2), std::vector<int>{1});
  EXPECT_EQ(order.Waits(3), std::vector<int>{2});
  EXPECT_EQ(order.Waits(4), std::vector<int>{});
}

// By the checker's own computation, the plan's events give the order that the planner assumed.
TEST(StreamOrder, IsThatOfThePlan) {
  for (RandomShape shape : kShapes) {
    shape.devices = 1;
    for (bool loops : {false, true}) {
      shape.loops = loops;
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const LoweredProgram program = RandomProgram(seed, shape);
        auto emitted = EmitPlan(Planned(program, 1), {}, nullptr);
        ASSERT_TRUE(emitted.ok()) << emitted.status().message();
        const StreamOrder order(program);
        Arena scratch;
        check::StepOrder steps;
        ASSERT_TRUE(steps.Build(emitted->plan.programs[0], scratch).ok());
        for (uint32_t b = 0; b < program.ops.size(); ++b) {
          for (uint32_t a = 0; a < b; ++a)
            ASSERT_EQ(steps.Before(a, b), order.Before(static_cast<int>(a), static_cast<int>(b)));
        }
      }
    }
  }
}

TEST(StreamLives, AValueEndsWhenAllItsUsesAreOverWhateverTheTiming) {
  for (const RandomShape& shape : kShapes) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const LoweredProgram program = RandomProgram(seed, shape);
      const StreamOrder order(program);
      const std::vector<Life> lives = Lifetimes(program);
      const StreamLives streams(program, order, lives);
      const auto before = Reachable(program);
      for (size_t a = 0; a < program.values.size(); ++a) {
        for (size_t b = 0; b < program.values.size(); ++b) {
          if (a == b || !lives[a].used() || !lives[b].used()) continue;
          ASSERT_EQ(streams.Before(a, b), UsedBefore(program, before, a, b))
              << a << " and " << b << ", seed " << seed;
        }
      }
    }
  }
}

// A chain of values on each stream; no value may be written over its source.
HandMade Chains(uint32_t streams, int length, bool joined) {
  HandMade made;
  const int x = made.Input("x", 16);
  std::vector<int> last(streams, x);
  for (int i = 0; i < length; ++i) {
    for (uint32_t s = 0; s < streams; ++s) {
      const int next = made.Temporary(1600);
      made.Sum({}, next);
      LoweredOp& op = made.program().ops.back();
      op.stream = s;
      op.params.push_back({last[s], 0, Mode::kRead});
      op.kernel.num_params = 2;
      if (i > 0)
        op.deps.push_back(static_cast<int>(made.program().ops.size()) - 1 - static_cast<int>(streams));
      last[s] = next;
    }
    // Joins all streams after each round.
    for (uint32_t s = 0; joined && i > 0 && s < streams; ++s) {
      LoweredOp& op = made.program().ops[made.program().ops.size() - streams + s];
      op.deps.clear();
      for (uint32_t t = 0; t < streams; ++t)
        op.deps.push_back(static_cast<int>(made.program().ops.size() - 2 * streams + t));
    }
  }
  return made;
}

std::vector<size_t> OwnRoots(const LoweredProgram& program) {
  std::vector<size_t> roots(program.values.size());
  for (size_t v = 0; v < roots.size(); ++v) roots[v] = v;
  return roots;
}

TEST(ArenaProblem, StreamsThatNeverMeetEachUseTheirMemoryAgain) {
  const LoweredProgram program = Chains(3, 20, false).Take();
  const StreamOrder order(program);
  const auto lives = Lifetimes(program);
  const ArenaProblem exact = MakeArenaProblem(program, order, lives, OwnRoots(program));
  EXPECT_FALSE(exact.widened);
  EXPECT_FALSE(exact.packing.conflicts.empty());
  EXPECT_EQ(Pack(exact.packing).height, 3 * 2 * 6400 + 64);
  EXPECT_EQ(exact.least_bytes, 3 * 2 * 6400 + 64);
  // Lifetimes extend to the last step that may run at the same time. With other streams that is the end.
  const ArenaProblem widened = MakeArenaProblem(program, order, lives, OwnRoots(program), 10);
  EXPECT_TRUE(widened.widened);
  EXPECT_TRUE(widened.packing.conflicts.empty());
  EXPECT_GT(Pack(widened.packing).height, 55 * 6400);
  EXPECT_LE(widened.least_bytes, exact.least_bytes);
}

TEST(ArenaProblem, StreamsThatMeetNeedNoConflictsByName) {
  const LoweredProgram program = Chains(3, 20, true).Take();
  const ArenaProblem problem =
      MakeArenaProblem(program, StreamOrder(program), Lifetimes(program), OwnRoots(program));
  EXPECT_FALSE(problem.widened);
  EXPECT_TRUE(problem.packing.conflicts.empty());
  EXPECT_EQ(Pack(problem.packing).height, problem.least_bytes);
}

// In each form of the problem, values that conflict by definition get offsets that do not overlap.
TEST(ArenaProblem, NoFormOfItLetsConflictingValuesOverlap) {
  int named = 0, by_time = 0;
  for (const RandomShape& shape : kShapes) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const LoweredProgram program = RandomProgram(seed, shape);
      const StreamOrder order(program);
      const auto lives = Lifetimes(program);
      const auto before = Reachable(program);
      for (int64_t most : {int64_t{3'000'000}, int64_t{5}}) {
        const ArenaProblem problem = MakeArenaProblem(program, order, lives, OwnRoots(program), most);
        ++(problem.packing.conflicts.empty() ? by_time : named);
        PackingOptions options;
        options.rounds = 50;
        options.work = 100'000;
        const PackingSolution solution = Pack(problem.packing, options);
        EXPECT_EQ(CheckPacking(problem.packing, solution), "");
        EXPECT_GE(solution.height, problem.least_bytes);
        for (size_t a = 0; a < lives.size(); ++a) {
          for (size_t b = 0; b < a; ++b) {
            if (!lives[a].used() || !lives[b].used()) continue;
            const bool apart = solution.offsets[a] + program.values[a].bytes <= solution.offsets[b] ||
                               solution.offsets[b] + program.values[b].bytes <= solution.offsets[a];
            ASSERT_TRUE(apart || UsedBefore(program, before, a, b) || UsedBefore(program, before, b, a))
                << a << " and " << b << ", seed " << seed;
          }
        }
      }
    }
  }
  EXPECT_GT(named, 20);
  EXPECT_GT(by_time, 20);
}

TEST(Antichain, IsTheHeaviestByTryingAll) {
  uint64_t state = 3;
  const auto below = [&](size_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state >> 33) % n;
  };
  for (int round = 0; round < 300; ++round) {
    const size_t count = 1 + below(11);
    std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
    std::vector<int64_t> weights;
    for (size_t b = 0; b < count; ++b) {
      weights.push_back(static_cast<int64_t>(below(10)));
      for (size_t a = 0; a < b; ++a) before[a][b] = before[a][b] || below(4) == 0;
      for (size_t a = 0; a < b; ++a) {
        for (size_t c = 0; c < a && before[a][b]; ++c) before[c][b] = before[c][b] || before[c][a];
      }
    }
    std::vector<std::vector<int>> after(count);
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < count; ++b) {
        if (before[a][b]) after[a].push_back(static_cast<int>(b));
      }
    }
    int64_t heaviest = 0;
    for (uint32_t set = 0; set < 1u << count; ++set) {
      int64_t weight = 0;
      bool fits = true;
      for (size_t b = 0; b < count; ++b) {
        if ((set >> b & 1) == 0) continue;
        weight += weights[b];
        for (size_t a = 0; a < b; ++a) fits = fits && !((set >> a & 1) != 0 && before[a][b]);
      }
      if (fits) heaviest = std::max(heaviest, weight);
    }
    EXPECT_EQ(HeaviestAntichain(weights, after, 1'000'000), heaviest) << "round " << round;
    for (int64_t work = 0; work < 40; ++work) {
      const std::optional<int64_t> found = HeaviestAntichain(weights, after, work);
      EXPECT_EQ(found.value_or(heaviest), heaviest) << "round " << round << ", work " << work;
    }
  }
  EXPECT_EQ(HeaviestAntichain({5, 7, 1}, {{1}, {}, {}}, 2), std::nullopt);
}

// Memory that a collective in flight reads or writes is not free before its wait, even if other steps come
// between.
TEST(PlanMemory, ACollectiveInFlightKeepsItsBuffersAlive) {
  for (bool in_place : {false, true}) {
    HandMade made;
    const int x = made.Input("x", 64);
    const int from = made.Temporary(64, "from"), to = made.Temporary(64, "to");
    const int beside = made.Temporary(64, "beside");
    made.Sum({x}, from);
    const int sum = made.Start(CollectiveOp::kAllReduce, from, to);
    if (!in_place) made.program().ops.back().in_place.clear();
    made.Sum({x}, beside);
    made.Sum({beside}, made.Output("y", 64));
    made.Wait(sum);
    made.Sum({to}, made.Output("z", 64));
    const MemoryPlan plan = PlanMemory(made.program());
    const auto at = [&](int v) { return plan.offsets[static_cast<size_t>(v)]; };
    EXPECT_EQ(plan.takes_over[static_cast<size_t>(to)], in_place ? from : -1);
    EXPECT_EQ(at(from) == at(to), in_place);
    EXPECT_NE(at(beside), at(from));
    EXPECT_NE(at(beside), at(to));
  }
}

// Another step reads the source while the collective is in flight, so it cannot work in place.
TEST(PlanMemory, ACollectiveWhoseSourceIsReadMeanwhileDoesNotWriteOverIt) {
  HandMade made;
  const int x = made.Input("x", 64), from = made.Temporary(64), to = made.Temporary(64);
  made.Sum({x}, from);
  const int sum = made.Start(CollectiveOp::kAllReduce, from, to);
  made.Sum({from}, made.Output("y", 64));
  made.Wait(sum);
  made.Sum({to}, made.Output("z", 64));
  const MemoryPlan plan = PlanMemory(made.program());
  EXPECT_EQ(plan.in_place, 0);
  EXPECT_NE(plan.offsets[static_cast<size_t>(from)], plan.offsets[static_cast<size_t>(to)]);
}

// Another stream may still read the value that the op would overwrite.
TEST(PlanMemory, AReaderOnAnotherStreamForbidsWritingInPlace) {
  for (uint32_t stream : {0u, 1u}) {
    HandMade made;
    const int x = made.Input("x", 64), a = made.Temporary(64), b = made.Temporary(64);
    made.Sum({x}, a);
    made.Sum({a}, made.Output("y", 64));
    made.program().ops.back().stream = stream;
    made.Sum({a}, b);
    made.Sum({b}, made.Output("z", 64));
    EXPECT_EQ(PlanMemory(made.program()).in_place, stream == 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace rondo
