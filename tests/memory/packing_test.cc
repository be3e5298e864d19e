// The packing of buffers: data in, data out.
#include "compiler/memory/packing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rondo {
namespace {

struct Case {
  const char* name;
  const char* csv;
  int64_t height;  // expected: the least possible
};

const Case kCases[] = {
    {"Nothing", "id,lower,upper,size\n", 0},
    {"One", "id,lower,upper,size\na,0,1,10\n", 10},
    {"TwoAtOnce", "id,lower,upper,size\na,0,2,10\nb,1,3,5\n", 15},
    {"OneAfterTheOther", "id,lower,upper,size\na,0,2,10\nb,2,3,5\n", 10},
    {"NeverAlive", "id,lower,upper,size\na,0,2,10\nb,2,2,50\n", 10},
    // MiniMalloc's own example.
    {"FiveInTwelve", "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n", 12},
    // Largest first leaves a hole that only another order fills.
    {"ColumnsInAnyOrder", "size,upper,lower,id\n4,2,0,x\n4,2,1,y\n", 8},
};

TEST(Packing, FindsTheLeastHeightOfSmallProblems) {
  for (const Case& c : kCases) {
    auto problem = ParsePackingCsv(c.csv);
    ASSERT_TRUE(problem.ok()) << c.name << ": " << problem.status().message();
    const PackingSolution solution = Pack(*problem);
    EXPECT_EQ(CheckPacking(*problem, solution), "") << c.name;
    EXPECT_EQ(solution.height, c.height) << c.name;
    EXPECT_EQ(solution.lower_bound, c.height) << c.name;
  }
}

PackingProblem RandomProblem(uint64_t seed, int count, int64_t alignment) {
  uint64_t state = seed * 77 + 1;
  auto below = [&](int64_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n));
  };
  PackingProblem problem;
  problem.alignment = alignment;
  for (int i = 0; i < count; ++i) {
    const int64_t lower = below(50);
    problem.buffers.push_back({std::to_string(i), lower, lower + 1 + below(12), 1 + below(5000)});
  }
  return problem;
}

TEST(Packing, NeverLetsLiveBuffersOverlap) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const PackingProblem problem = RandomProblem(seed, 60, seed % 2 == 0 ? 1 : 64);
    PackingOptions options;
    options.rounds = 200;
    options.nodes = 2000;
    const PackingSolution solution = Pack(problem, options);
    EXPECT_EQ(CheckPacking(problem, solution), "") << "seed " << seed;
    // Brute force, by bytes of one time after the other.
    for (int64_t time = 0; time < 70; ++time) {
      std::vector<bool> taken(static_cast<size_t>(solution.height), false);
      for (size_t i = 0; i < problem.buffers.size(); ++i) {
        const PackingBuffer& b = problem.buffers[i];
        if (time < b.lower || time >= b.upper) continue;
        EXPECT_EQ(solution.offsets[i] % problem.alignment, 0);
        for (int64_t at = solution.offsets[i]; at < solution.offsets[i] + b.size; ++at) {
          ASSERT_FALSE(taken[static_cast<size_t>(at)])
              << "seed " << seed << " time " << time << " byte " << at;
          taken[static_cast<size_t>(at)] = true;
        }
      }
    }
    EXPECT_GE(solution.height, solution.lower_bound);
    EXPECT_LE(static_cast<double>(solution.height), 1.10 * static_cast<double>(solution.lower_bound));
  }
}

// A box of `times` x `bytes` cut into `count` pieces: they can be packed without any gap.
PackingProblem CutBox(uint64_t seed, int count, int64_t times, int64_t bytes) {
  uint64_t state = seed * 77 + 1;
  auto below = [&](int64_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(n));
  };
  PackingProblem problem;
  problem.buffers.push_back({"0", 0, times, bytes});
  while (problem.buffers.size() < static_cast<size_t>(count)) {
    PackingBuffer& b =
        problem.buffers[static_cast<size_t>(below(static_cast<int64_t>(problem.buffers.size())))];
    PackingBuffer piece = b;
    piece.id = std::to_string(problem.buffers.size());
    const bool in_time = below(2) == 0;
    const int64_t extent = in_time ? b.upper - b.lower : b.size;
    if (extent < 8) continue;
    const int64_t cut = extent / 4 + below(extent / 2);
    if (in_time) {
      piece.lower = b.lower + cut;
      b.upper = piece.lower;
    } else {
      piece.size = b.size - cut;
      b.size = cut;
    }
    problem.buffers.push_back(piece);
  }
  return problem;
}

TEST(Packing, FindsPackingsWithoutAGap) {
  int searched = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const PackingProblem problem = CutBox(seed, 60, 1000, 1000);
    PackingOptions options;
    options.nodes = 500'000;
    const PackingSolution solution = Pack(problem, options);
    EXPECT_EQ(CheckPacking(problem, solution), "") << "seed " << seed;
    EXPECT_EQ(solution.lower_bound, 1000);
    EXPECT_EQ(solution.height, 1000) << "seed " << seed;
    searched += solution.nodes > 0;
  }
  EXPECT_GT(searched, 0);  // placing in order did not find them all
}

TEST(Packing, StopsAtTheCapacity) {
  const PackingProblem problem = CutBox(1, 60, 1000, 1000);
  PackingOptions options;
  options.capacity = 2000;
  const PackingSolution solution = Pack(problem, options);
  EXPECT_LE(solution.height, 2000);
  EXPECT_EQ(solution.rounds, 1);
  EXPECT_EQ(solution.nodes, 0);
}

TEST(Packing, GivesTheSameOffsetsEveryTime) {
  const PackingProblem problem = RandomProblem(3, 80, 64);
  EXPECT_EQ(Pack(problem).offsets, Pack(problem).offsets);
}

TEST(Packing, CheckNamesTheBuffersThatOverlap) {
  PackingProblem problem;
  problem.buffers = {{"left", 0, 4, 10}, {"right", 3, 5, 10}};
  PackingSolution solution;
  solution.offsets = {0, 5};
  solution.height = 15;
  const std::string why = CheckPacking(problem, solution);
  EXPECT_NE(why.find("left"), std::string::npos) << why;
  EXPECT_NE(why.find("right"), std::string::npos) << why;
  solution.offsets = {0, 10};
  EXPECT_NE(CheckPacking(problem, solution), "");  // above the height
  solution.height = 20;
  EXPECT_EQ(CheckPacking(problem, solution), "");
}

TEST(Packing, SaysWhichLineOfAFileIsWrong) {
  const char* const kBad[] = {
      "",
      "id,lower,upper\na,0,1\n",
      "id,lower,upper,size\na,0,1\n",
      "id,lower,upper,size\na,0,one,4\n",
      "id,lower,upper,size\na,0,1,-4\n",
      "id,lower,upper,size\na,0,1,99999999999999999999\n",
  };
  for (const char* csv : kBad) {
    auto problem = ParsePackingCsv(csv);
    ASSERT_FALSE(problem.ok()) << csv;
    EXPECT_EQ(problem.status().code(), Code::kCorrupt);
    EXPECT_NE(std::string(problem.status().message()).find("line "), std::string::npos)
        << problem.status().message();
  }
}

TEST(Packing, WritesWhatItReads) {
  auto problem = ParsePackingCsv("id,lower,upper,size\na,0,2,10\nb,1,3,5\n");
  ASSERT_TRUE(problem.ok());
  const std::string csv = FormatPackingCsv(*problem, Pack(*problem));
  EXPECT_EQ(csv, "id,lower,upper,size,offset\na,0,2,10,0\nb,1,3,5,10\n");
}

}  // namespace
}  // namespace rondo
