// The packing of buffers, as data in and data out.
#include "compiler/memory/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/memory/numbers.h"

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
    options.work = 200'000;
    const PackingSolution solution = Pack(problem, options);
    EXPECT_EQ(CheckPacking(problem, solution), "") << "seed " << seed;
    // Checks by brute force: marks the bytes in use at each time.
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

// A box of `times` x `bytes` cut into `count` pieces, which can be packed without a gap. With `slack`, some
// pieces are then shortened, shrunk or left out; the rest still fits.
PackingProblem CutBox(uint64_t seed, int count, int64_t times, int64_t bytes, bool slack = false) {
  Numbers numbers(seed);
  PackingProblem problem;
  problem.buffers.push_back({"0", 0, times, bytes});
  while (problem.buffers.size() < static_cast<size_t>(count)) {
    PackingBuffer& b =
        problem.buffers[static_cast<size_t>(numbers.Below(static_cast<int64_t>(problem.buffers.size())))];
    PackingBuffer piece = b;
    piece.id = std::to_string(problem.buffers.size());
    const bool in_time = numbers.Below(2) == 0;
    const int64_t extent = in_time ? b.upper - b.lower : b.size;
    if (extent < 8) continue;
    const int64_t cut = extent / 4 + numbers.Below(extent / 2);
    if (in_time) {
      piece.lower = b.lower + cut;
      b.upper = piece.lower;
    } else {
      piece.size = b.size - cut;
      b.size = cut;
    }
    problem.buffers.push_back(piece);
  }
  for (PackingBuffer& b : problem.buffers) {
    if (!slack || numbers.Below(4) != 0) continue;
    if (numbers.Below(2) == 0) b.lower += (b.upper - b.lower) / 5;
    b.size -= b.size / 8;
    if (numbers.Below(8) == 0) b.size = 0;
  }
  return problem;
}

TEST(Packing, FindsPackingsWithoutAGap) {
  int searched = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int count : {50, 100, 200}) {
      const PackingProblem problem = CutBox(seed, count, 10'000, 10'000);
      const PackingSolution solution = Pack(problem);
      EXPECT_EQ(CheckPacking(problem, solution), "") << "seed " << seed;
      EXPECT_EQ(solution.lower_bound, 10'000);
      EXPECT_EQ(solution.height, 10'000) << "seed " << seed << ", " << count << " buffers";
      EXPECT_FALSE(solution.exhausted);
      searched += solution.nodes > 0;
    }
  }
  EXPECT_GT(searched, 10);  // some need the search, not only placing in order
}

TEST(Packing, FindsPackingsWithLittleRoomToSpare) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int count : {50, 100, 200}) {
      const PackingProblem problem = CutBox(seed, count, 10'000, 10'000, true);
      PackingOptions options;
      options.capacity = 10'000;
      const PackingSolution solution = Pack(problem, options);
      EXPECT_EQ(CheckPacking(problem, solution), "") << "seed " << seed;
      EXPECT_LE(solution.height, 10'000) << "seed " << seed << ", " << count << " buffers";
    }
  }
}

// Whether a packing exists. Tries every order of placing buffers from the lowest offset up, each as low as
// the earlier ones allow. `tops` holds the ends of placed buffers; 0: not placed.
bool Fits(const std::vector<PackingBuffer>& buffers, int64_t capacity, int64_t last,
          std::vector<int64_t>* tops) {
  bool all = true;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if ((*tops)[i] > 0) continue;
    all = false;
    int64_t at = 0;
    for (size_t j = 0; j < buffers.size(); ++j) {
      if (buffers[i].lower < buffers[j].upper && buffers[j].lower < buffers[i].upper) {
        at = std::max(at, (*tops)[j]);
      }
    }
    if (at < last || at + buffers[i].size > capacity) continue;
    (*tops)[i] = at + buffers[i].size;
    if (Fits(buffers, capacity, at, tops)) return true;
    (*tops)[i] = 0;
  }
  return all;
}

// A few buffers with at most `bytes` alive at any time, and often exactly that many.
PackingProblem FullAlmostAlways(uint64_t seed, size_t count, int64_t times, int64_t bytes) {
  Numbers numbers(seed);
  PackingProblem problem;
  std::vector<int64_t> live(static_cast<size_t>(times), 0);
  for (int tries = 0; tries < 60 && problem.buffers.size() < count; ++tries) {
    const int64_t lower = numbers.Below(times);
    const int64_t upper = std::min(times, lower + 1 + numbers.Below(times / 2));
    const auto begin = live.begin() + lower, end = live.begin() + upper;
    const int64_t size = std::min(1 + numbers.Below(bytes / 2), bytes - *std::max_element(begin, end));
    if (size < 1) continue;
    std::for_each(begin, end, [&](int64_t& sum) { sum += size; });
    problem.buffers.push_back({std::to_string(tries), lower, upper, size});
  }
  return problem;
}

TEST(Packing, KnowsWhenThereIsNoPacking) {
  int above_the_bound = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const PackingProblem problem = FullAlmostAlways(seed, 11, 10, 8);
    PackingOptions options;
    options.capacity = 8;
    options.rounds = 1;
    const PackingSolution solution = Pack(problem, options);
    std::vector<int64_t> tops(problem.buffers.size(), 0);
    const bool fits = Fits(problem.buffers, 8, 0, &tops);
    EXPECT_EQ(CheckPacking(problem, solution), "") << "seed " << seed;
    EXPECT_EQ(solution.height <= 8, fits) << "seed " << seed;
    EXPECT_EQ(solution.exhausted, !fits) << "seed " << seed;
    above_the_bound += !fits;
  }
  EXPECT_GT(above_the_bound, 5);
}

TEST(Packing, EndsWhenItIsToldTo) {
  // Without a packing at the bound the search would continue.
  const PackingProblem problem = CutBox(3, 400, 10'000, 10'000);
  PackingOptions options;
  options.rounds = 1'000'000'000;
  options.work = INT64_MAX;
  int asked = 0;
  options.stop = [&] { return ++asked > 50; };
  const PackingSolution solution = Pack(problem, options);
  EXPECT_EQ(CheckPacking(problem, solution), "");
  EXPECT_GT(asked, 50);
  EXPECT_FALSE(solution.exhausted);
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
  for (const PackingProblem& problem : {RandomProblem(3, 80, 64), CutBox(5, 200, 10'000, 10'000)}) {
    EXPECT_EQ(Pack(problem).offsets, Pack(problem).offsets);
  }
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
  EXPECT_NE(CheckPacking(problem, solution), "");  // an offset above the height
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

TEST(Packing, RefusesSizesWhoseSumWouldOverflow) {
  std::string csv = "id,lower,upper,size\n";
  for (int i = 0; i < 70'000; ++i) csv += "a,0,1,70368744177664\n";
  auto problem = ParsePackingCsv(csv);
  ASSERT_FALSE(problem.ok());
  EXPECT_EQ(problem.status().message(),
            std::string("packing problem, line 65537: the sizes up to here are more than 2^62 together"));
}

TEST(Packing, WritesWhatItReads) {
  auto problem = ParsePackingCsv("id,lower,upper,size\na,0,2,10\nb,1,3,5\n");
  ASSERT_TRUE(problem.ok());
  const std::string csv = FormatPackingCsv(*problem, Pack(*problem));
  EXPECT_EQ(csv, "id,lower,upper,size,offset\na,0,2,10,0\nb,1,3,5,10\n");
}

}  // namespace
}  // namespace rondo
