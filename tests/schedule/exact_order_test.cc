// The exact search compared with all orders; its bounds; and its parts: the memory model, seams, and the
// least memory that any order needs.
#include "compiler/schedule/exact_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/memory/in_place.h"
#include "compiler/memory/plan_memory.h"
#include "compiler/schedule/greedy_orders.h"
#include "compiler/schedule/least_memory.h"
#include "compiler/schedule/least_peak.h"
#include "tests/compile/hand_made.h"

namespace rondo {
namespace {

// Ops that read up to three earlier values. Most values have one of a few sizes, so that many can be computed
// in place. Some are outputs, some are written twice, some are never read.
LoweredProgram RandomProgram(uint64_t seed, int ops) {
  uint64_t state = seed * 2862933555777941757ull + 3037000493ull;
  auto below = [&](size_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state >> 33) % n;
  };
  const int64_t sizes[] = {16, 32, 32, 48, 64, 160};
  HandMade made;
  std::vector<int> known = {made.Input("x", 16), made.Input("z", 64)}, temporaries;
  const size_t reach = 2 + below(6);
  for (int i = 0; i < ops; ++i) {
    std::vector<int> from;
    for (size_t k = below(8) == 0 ? 0 : 1 + below(3); k > 0; --k) {
      const int v = known[known.size() - 1 - below(std::min(known.size(), reach))];
      if (std::find(from.begin(), from.end(), v) == from.end()) from.push_back(v);
    }
    int to = -1;
    if (!temporaries.empty() && below(10) == 0) to = temporaries[below(temporaries.size())];
    if (std::find(from.begin(), from.end(), to) != from.end()) to = -1;
    if (to < 0 && below(8) == 0) to = made.Output("y" + std::to_string(i), sizes[below(6)]);
    if (to < 0) {
      to = made.Temporary(sizes[below(6)], "t" + std::to_string(i));
      temporaries.push_back(to);
    }
    made.Sum(from, to);
    known.push_back(to);
  }
  return made.Take();
}

LoweredProgram Reordered(const LoweredProgram& program, const std::vector<int>& order) {
  LoweredProgram copy = program;
  Reorder(order, &copy);
  return copy;
}

// The cost of the program's current order, by the memory planner's lifetimes: the bytes alive at each step,
// where values that share memory count once.
OrderCost CostByLifetimes(const LoweredProgram& program) {
  const std::vector<Life> lives = Lifetimes(program);
  const std::vector<int> takes_over = TakesOver(program, StreamOrder(program), lives);
  OrderCost cost{0, 0};
  for (int step = 0; step < static_cast<int>(program.ops.size()); ++step) {
    int64_t sum = 0;
    for (size_t v = 0; v < lives.size(); ++v) {
      if (!InArena(program.values[v].kind) || !lives[v].used()) continue;
      const bool lent = takes_over[v] >= 0 && lives[v].first == step;
      if (lives[v].first <= step && step <= lives[v].last && !lent)
        sum += (program.values[v].bytes + 63) / 64 * 64;
    }
    cost.peak = std::max(cost.peak, sum);
    cost.area += static_cast<double>(sum);
  }
  return cost;
}
int64_t PeakByLifetimes(const LoweredProgram& program) { return CostByLifetimes(program).peak; }

// Calls `visit` with every order of the program's ops; ends after `most`.
template <typename Visit>
bool ForEachOrder(const Dependences& deps, std::vector<int>* order, std::vector<char>* ran, int* most,
                  const Visit& visit) {
  if (order->size() == ran->size()) {
    visit(*order);
    return --*most > 0;
  }
  for (int op = 0; op < deps.count(); ++op) {
    const auto& before = deps.before[static_cast<size_t>(op)];
    if ((*ran)[static_cast<size_t>(op)] != 0 ||
        std::any_of(before.begin(), before.end(), [&](int d) { return (*ran)[static_cast<size_t>(d)] == 0; }))
      continue;
    (*ran)[static_cast<size_t>(op)] = 1;
    order->push_back(op);
    const bool go_on = ForEachOrder(deps, order, ran, most, visit);
    order->pop_back();
    (*ran)[static_cast<size_t>(op)] = 0;
    if (!go_on) return false;
  }
  return true;
}
template <typename Visit>
bool ForEachOrder(const Dependences& deps, int most, const Visit& visit) {
  std::vector<int> order;
  std::vector<char> ran(deps.before.size(), 0);
  return ForEachOrder(deps, &order, &ran, &most, visit);
}

constexpr int64_t kEnoughWork = 10'000'000;

TEST(ExactOrder, IsAsGoodAsTheBestOfAllOrders) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const LoweredProgram program = RandomProgram(seed, 4 + static_cast<int>(seed % 7));
    const MemoryModel model(program);
    const Dependences deps(program);
    int64_t best = -1;
    const bool all = ForEachOrder(deps, 4000, [&](const std::vector<int>& order) {
      const OrderCost cost = CostByLifetimes(Reordered(program, order)), modelled = CostOf(model, order);
      ASSERT_EQ(modelled.area, cost.area) << "seed " << seed;
      ASSERT_EQ(modelled.peak, std::max(cost.peak, model.start_bytes)) << "seed " << seed;
      if (best < 0 || cost.peak < best) best = cost.peak;
    });
    ASSERT_LE(LeastPeak(model, deps), PeakLiveBytes(program, GivenOrder(program))) << "seed " << seed;
    if (!all) continue;
    ++compared;
    EXPECT_LE(LeastPeak(model, deps), best) << "seed " << seed;
    const OrderSearch at = FindOrder(model, deps, best, kEnoughWork);
    ASSERT_EQ(at.order.size(), program.ops.size()) << "seed " << seed;
    EXPECT_EQ(PeakByLifetimes(Reordered(program, at.order)), best) << "seed " << seed;
    const OrderSearch below = FindOrder(model, deps, best - 1, kEnoughWork);
    EXPECT_TRUE(below.order.empty()) << "seed " << seed;
    EXPECT_GE(below.least, best) << "seed " << seed;
    // The search with any limit is right about other limits.
    for (int64_t limit = best - 64; limit > 0; limit -= 64) {
      const OrderSearch search = FindOrder(model, deps, limit, kEnoughWork);
      EXPECT_GT(search.least, limit) << "seed " << seed;
      EXPECT_LE(search.least, best) << "seed " << seed;
    }
    LoweredProgram scheduled = program;
    const ScheduleReport report = ScheduleForLeastMemory(&scheduled);
    EXPECT_EQ(report.peak_after, best) << "seed " << seed << ": " << report.text;
    EXPECT_TRUE(report.proven()) << "seed " << seed << ": " << report.text;
  }
  EXPECT_GT(compared, 200);
}

// Each op depends on the one before it, so only one order exists.
TEST(LeastPeak, IsThePeakOfTheOnlyOrder) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    LoweredProgram program = RandomProgram(seed, 4 + 4 * static_cast<int>(seed));
    for (size_t op = 0; op < program.ops.size(); ++op) {
      LoweredOp& only = program.ops[op];
      only.in_place.clear();
      only.deps.clear();
      if (op > 0) only.deps = {static_cast<int>(op) - 1};
    }
    EXPECT_EQ(LeastPeak(MemoryModel(program), Dependences(program)), PeakByLifetimes(program))
        << "seed " << seed;
  }
}

TEST(ExactOrder, ProvesTheLeastOfSixtyOps) {
  int by_search = 0;
  for (uint64_t seed = 1000; seed < 1020; ++seed) {
    LoweredProgram program = RandomProgram(seed, 60);
    const ScheduleReport report = ScheduleForLeastMemory(&program);
    EXPECT_TRUE(report.proven()) << "seed " << seed << ": " << report.text;
    EXPECT_EQ(report.peak_after, PeakByLifetimes(program)) << "seed " << seed;
    EXPECT_EQ(report.peak_after, PlanMemory(program).lower_bound) << "seed " << seed;
    by_search += report.method.find("exact search") != std::string::npos;
  }
  EXPECT_GT(by_search, 10);
}

// A program that a greedy method, which takes the op with the least growth first, orders badly.
TEST(ExactOrder, FindsWhatGreedyMethodsMiss) {
  const LoweredProgram program = RandomProgram(1003, 60);
  const MemoryModel model(program);
  const Dependences deps(program);
  int64_t greedy = PeakLiveBytes(program, GivenOrder(program));
  for (Greedy method :
       {Greedy::kLeastGrowth, Greedy::kLeastDuring, Greedy::kNewestFirst, Greedy::kDeepestValley})
    greedy = std::min(greedy, CostOf(model, GreedyOrder(model, deps, method)).peak);
  greedy = std::min(greedy, CostOf(model, DepthFirstOrder(model, deps)).peak);
  const OrderSearch search = FindLeastOrder(model, deps, greedy, 0, kEnoughWork);
  ASSERT_FALSE(search.order.empty());
  EXPECT_LT(PeakLiveBytes(program, search.order), greedy);
  EXPECT_EQ(PeakLiveBytes(program, search.order), search.least);
}

TEST(ExactOrder, KeepsToItsWork) {
  const LoweredProgram program = RandomProgram(7, 400);
  const MemoryModel model(program);
  const Dependences deps(program);
  const int64_t peak = PeakLiveBytes(program, GivenOrder(program));
  for (int64_t work : {1000, 100'000, 1'000'000}) {
    const OrderSearch one = FindOrder(model, deps, peak / 2, work),
                      same = FindOrder(model, deps, peak / 2, work);
    // The search ends between two ops, after looking at each ready op.
    EXPECT_LE(one.work, work + 400 * 400) << work;
    EXPECT_EQ(one.work, same.work);
    EXPECT_EQ(one.order, same.order);
    const OrderSearch least = FindLeastOrder(model, deps, peak, 0, work);
    EXPECT_LE(least.work, work + 400 * 400) << work;
    EXPECT_LE(least.least, peak);
  }
}

TEST(Dependences, SeamsAreOpsThatAllOthersPrecedeOrFollow) {
  int seams = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const LoweredProgram program = RandomProgram(seed, 12);
    const Dependences deps(program);
    const int n = deps.count();
    std::vector<std::vector<char>> before(12, std::vector<char>(12, 0));
    for (int op = 0; op < n; ++op) {
      for (int d : deps.before[static_cast<size_t>(op)]) {
        before[static_cast<size_t>(op)][static_cast<size_t>(d)] = 1;
        for (int e = 0; e < d; ++e)
          before[static_cast<size_t>(op)][static_cast<size_t>(e)] |=
              before[static_cast<size_t>(d)][static_cast<size_t>(e)];
      }
    }
    std::vector<int> expected = {0};
    for (int op = 1; op < n; ++op) {
      bool all = true;
      for (int other = 0; other < n; ++other) {
        if (other == op) continue;
        all = all &&
              before[static_cast<size_t>(std::max(op, other))][static_cast<size_t>(std::min(op, other))] != 0;
      }
      if (all) expected.push_back(op);
    }
    seams += static_cast<int>(expected.size()) - 1;
    expected.push_back(n);
    EXPECT_EQ(deps.Seams(), expected) << "seed " << seed;
  }
  EXPECT_GT(seams, 20);
}

TEST(MemoryModel, IsTheSameBackwardsAndInPieces) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const LoweredProgram program = RandomProgram(seed, 30);
    const MemoryModel model(program);
    const Dependences deps(program);
    const OrderCost whole = CostOf(model, GivenOrder(program));
    std::vector<int> order = GreedyOrder(model.Reversed(), deps.Reversed(), Greedy::kLeastGrowth);
    const OrderCost backwards = CostOf(model.Reversed(), order);
    Dependences::TurnBack(&order);
    EXPECT_EQ(CostOf(model, order).peak, backwards.peak) << "seed " << seed;
    EXPECT_EQ(CostOf(model, order).area, backwards.area) << "seed " << seed;
    OrderCost pieces{0, 0};
    for (const MemoryModel& piece : model.Split({0, 7, 8, 20, 30})) {
      std::vector<int> ops(piece.touches.size());
      std::iota(ops.begin(), ops.end(), 0);
      const OrderCost cost = CostOf(piece, ops);
      pieces.peak = std::max(pieces.peak, cost.peak);
      pieces.area += cost.area;
    }
    EXPECT_EQ(pieces.peak, whole.peak) << "seed " << seed;
    EXPECT_EQ(pieces.area, whole.area) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rondo
