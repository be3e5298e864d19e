// The height of packings found with a given amount of work, and problems that list their conflicts one by
// one.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "compiler/memory/packing.h"
#include "tests/folders.h"
#include "tests/memory/numbers.h"

namespace rondo {
namespace {

PackingProblem Read(const std::string& name) {
  std::ifstream file(SourceFolder() + "/tests/data/packing/" + name + ".csv");
  std::stringstream text;
  text << file.rdbuf();
  auto problem = ParsePackingCsv(text.str());
  EXPECT_TRUE(problem.ok()) << name;
  return problem.ok() ? *std::move(problem) : PackingProblem{};
}

// MiniMalloc's benchmarks (tests/data/README.md); each fits into 1 MiB. The work is a fifth more than the
// search needs now, so a worse search fails.
struct Benchmark {
  const char* name;
  int64_t work;
};
const Benchmark kBenchmarks[] = {
    {"A", 13'000'000}, {"C", 2'000'000}, {"E", 7'300'000}, {"G", 2'100'000}, {"K", 25'600'000}};

constexpr int64_t kMiB = 1 << 20;

TEST(PackingQuality, TheExactSearchNeedsNoMoreWorkForBenchmarks) {
  for (const Benchmark& b : kBenchmarks) {
    const PackingProblem problem = Read(b.name);
    PackingOptions options;
    options.capacity = kMiB;
    options.work = b.work;
    options.rounds = 1;
    const PackingSolution solution = Pack(problem, options);
    EXPECT_EQ(CheckPacking(problem, solution), "") << b.name;
    EXPECT_LE(solution.height, kMiB) << b.name;
    EXPECT_GT(solution.nodes, 0) << b.name;
    EXPECT_FALSE(solution.exhausted) << b.name;
  }
}

// Placement orders without the exact search, as for problems that list their conflicts.
TEST(PackingQuality, OrdersGetNoWorse) {
  struct Case {
    const char* name;
    int rounds;
    int64_t height;
  };
  const Case kCases[] = {{"A", 0, 1352704},   {"C", 0, 1417216},   {"E", 0, 1435648},   {"G", 0, 1226752},
                         {"K", 0, 1339392},   {"A", 200, 1289216}, {"C", 200, 1234944}, {"E", 200, 1336320},
                         {"G", 200, 1156096}, {"K", 200, 1301504}, {"E", 2000, 1282048}};
  for (const Case& c : kCases) {
    const PackingProblem problem = Read(c.name);
    PackingOptions options;
    options.capacity = kMiB;
    options.work = 0;
    options.rounds = c.rounds;
    const PackingSolution solution = Pack(problem, options);
    EXPECT_EQ(CheckPacking(problem, solution), "") << c.name;
    EXPECT_LE(solution.height, c.height) << c.name << ", " << c.rounds << " orders";
    EXPECT_EQ(solution.rounds, c.rounds + 8) << c.name;
    EXPECT_EQ(solution.nodes, 0) << c.name;
  }
}

PackingProblem Random(uint64_t seed, int count) {
  Numbers numbers(seed);
  PackingProblem problem;
  for (int i = 0; i < count; ++i) {
    const int64_t lower = numbers.Below(40);
    problem.buffers.push_back(
        {std::to_string(i), lower, lower + 1 + numbers.Below(10), 1 + numbers.Below(1000)});
  }
  return problem;
}

// The sum over many problems shows even a small loss.
TEST(PackingQuality, OfManyProblemsTheSumOfHeightsGetsNoLarger) {
  int64_t first = 0, orders = 0, search = 0, bound = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const PackingProblem problem = Random(seed, 40);
    PackingOptions options;
    options.work = 0;
    options.rounds = 0;
    first += Pack(problem, options).height;
    options.rounds = 100;
    orders += Pack(problem, options).height;
    options.rounds = 0;
    options.work = 20'000;
    search += Pack(problem, options).height;
    bound += PackingLowerBound(problem);
  }
  EXPECT_LE(first, 519'241);
  EXPECT_LE(orders, 514'534);
  EXPECT_LE(search, 514'354);
  EXPECT_EQ(bound, 513'291);
}

// The least height for buffers with listed conflicts, by placing them in every order.
int64_t LeastHeight(const PackingProblem& problem) {
  const size_t count = problem.buffers.size();
  std::vector<int> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = static_cast<int>(i);
  int64_t least = INT64_MAX;
  do {
    // Places each as low as the earlier ones allow. For some order that gives the lowest packing.
    std::vector<int64_t> at(count, -1);
    int64_t height = 0;
    for (int b : order) {
      const auto i = static_cast<size_t>(b);
      int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (int other : problem.conflicts[i]) {
          const auto o = static_cast<size_t>(other);
          const bool apart = at[o] < 0 || offset + problem.buffers[i].size <= at[o] ||
                             at[o] + problem.buffers[o].size <= offset;
          if (!apart) offset = at[o] + problem.buffers[o].size;
          moved = moved || !apart;
        }
      }
      at[i] = offset;
      height = std::max(height, offset + problem.buffers[i].size);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(NamedConflicts, TwoBuffersLieApartOrTogether) {
  for (bool conflict : {false, true}) {
    for (int64_t alignment : {1, 64}) {
      PackingProblem problem;
      problem.alignment = alignment;
      problem.buffers = {{"a", 0, 1, 100}, {"b", 1, 2, 60}};
      problem.conflicts = {{}, {}};
      if (conflict) problem.conflicts = {{1}, {0}};
      const PackingSolution solution = Pack(problem);
      EXPECT_EQ(CheckPacking(problem, solution), "");
      const int64_t sum = alignment == 1 ? 160 : 192, more = alignment == 1 ? 100 : 128;
      EXPECT_EQ(solution.height, conflict ? sum : more);
      EXPECT_EQ(solution.lower_bound, more);  // the bound by lifetimes
      EXPECT_EQ(solution.nodes, 0);           // the exact search needs lifetimes
    }
  }
}

TEST(NamedConflicts, ArePackedAsLowAsAnyOrderOfThem) {
  int above_the_bound = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Numbers numbers(seed);
    PackingProblem problem;
    const int count = 2 + static_cast<int>(numbers.Below(5));
    problem.conflicts.resize(static_cast<size_t>(count));
    for (int b = 0; b < count; ++b) {
      const int64_t lower = numbers.Below(4);
      problem.buffers.push_back(
          {std::to_string(b), lower, lower + 1 + numbers.Below(2), 1 + numbers.Below(9)});
      for (int a = 0; a < b; ++a) {
        const PackingBuffer &x = problem.buffers[static_cast<size_t>(a)], &y = problem.buffers.back();
        const bool at_one_time = x.lower < y.upper && y.lower < x.upper;
        if (!at_one_time && numbers.Below(3) != 0) continue;
        problem.conflicts[static_cast<size_t>(a)].push_back(b);
        problem.conflicts[static_cast<size_t>(b)].push_back(a);
      }
    }
    PackingOptions options;
    options.rounds = 300;
    const PackingSolution solution = Pack(problem, options);
    EXPECT_EQ(CheckPacking(problem, solution), "") << "seed " << seed;
    EXPECT_EQ(solution.height, LeastHeight(problem)) << "seed " << seed;
    above_the_bound += solution.height > solution.lower_bound;
  }
  EXPECT_GT(above_the_bound, 50);
}

}  // namespace
}  // namespace rondo
