// Reasons to refuse a solution, the format of problems, and problems too large to list all pairs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/memory/packing.h"
#include "tests/memory/numbers.h"

namespace rondo {
namespace {

TEST(CheckPacking, SaysWhatIsWrongWithWhichBuffers) {
  struct Case {
    std::vector<int64_t> offsets;
    int64_t height;
    std::vector<std::vector<int>> conflicts;
    const char* says;
  };
  // left lives until 4, right from 3, later from 5 on; dead and empty need no place.
  const std::vector<PackingBuffer> buffers = {
      {"left", 0, 4, 24}, {"right", 3, 5, 16}, {"dead", 4, 4, 8}, {"later", 5, 9, 8}, {"empty", 0, 9, 0}};
  const std::vector<std::vector<int>> named = {{1, 3}, {0}, {}, {0}, {}};
  const Case kCases[] = {
      {{0, 24, 0, 0, 0}, 40, {}, ""},
      {{16, 0, 3, 16, -8}, 40, {}, ""},
      {{0, 24, 0, 0}, 40, {}, "4 offsets for 5 buffers"},
      {{0, -8, 0, 0, 0}, 40, {}, "buffer right lies at -8, not a multiple of 8"},
      {{0, 28, 0, 0, 0}, 48, {}, "buffer right lies at 28, not a multiple of 8"},
      {{0, 24, 0, 0, 0}, 39, {}, "buffer right ends at 40, above the height of 39"},
      {{0, 16, 0, 0, 0},
       40,
       {},
       "buffers left and right are alive at one time and overlap: bytes [0, 24) and [16, 32)"},
      {{8, 0, 0, 0, 0},
       40,
       {},
       "buffers left and right are alive at one time and overlap: bytes [8, 32) and [0, 16)"},
      {{0, 24, 0, 24, 0}, 40, named, ""},
      {{0, 24, 0, 16, 0},
       40,
       named,
       "buffers later and left are alive at one time and overlap: bytes [16, 24) and [0, 24)"},
  };
  for (const Case& c : kCases) {
    PackingProblem problem{buffers, 8, c.conflicts};
    PackingSolution solution;
    solution.offsets = c.offsets;
    solution.height = c.height;
    EXPECT_EQ(CheckPacking(problem, solution), c.says);
  }
}

TEST(PackingCsv, IsReadHoweverItIsWritten) {
  const char* const kTexts[] = {
      "id,lower,upper,size\na,0,2,10\nb,1,3,5\n",
      "id,lower,upper,size\r\na,0,2,10\r\nb,1,3,5",
      "size,note,upper,lower,id\n10,first,2,0,a\n\n5,,3,1,b\n\n",
  };
  for (const char* text : kTexts) {
    auto problem = ParsePackingCsv(text);
    ASSERT_TRUE(problem.ok()) << text << problem.status().message();
    ASSERT_EQ(problem->buffers.size(), 2u) << text;
    const PackingBuffer &a = problem->buffers[0], &b = problem->buffers[1];
    EXPECT_EQ(a.id + b.id, "ab");
    EXPECT_EQ((std::vector<int64_t>{a.lower, a.upper, a.size, b.lower, b.upper, b.size}),
              (std::vector<int64_t>{0, 2, 10, 1, 3, 5}));
    EXPECT_EQ(problem->alignment, 1);
    EXPECT_TRUE(problem->conflicts.empty());
  }
}

TEST(PackingCsv, HoldsNumbersUpToTwoToThe46) {
  auto largest = ParsePackingCsv("id,lower,upper,size\na,0,70368744177664,70368744177664\n");
  ASSERT_TRUE(largest.ok());
  EXPECT_EQ(largest->buffers[0].size, int64_t{1} << 46);
  struct Case {
    const char *text, *says;
  };
  const Case kCases[] = {
      {"id,lower,upper,size\n\na,0,1,70368744177665\n",
       "packing problem, line 3: lower, upper and size must be numbers from 0 to 2^46"},
      {"id,lower,upper,size\na,-1,1,5\n",
       "packing problem, line 2: lower, upper and size must be numbers from 0 to 2^46"},
      {"id,lower,upper,size\na,0,1x,5\n",
       "packing problem, line 2: lower, upper and size must be numbers from 0 to 2^46"},
      {"id,lower,upper,size\na,0,1,5\na,0,1,5,6\n",
       "packing problem, line 3: it has another number of columns than the header"},
      {"id,lower,size\n", "packing problem, line 1: the header must name id, lower, upper and size"},
      {"", "packing problem, line 1: the header must name id, lower, upper and size"},
  };
  for (const Case& c : kCases) {
    auto problem = ParsePackingCsv(c.text);
    ASSERT_FALSE(problem.ok()) << c.text;
    EXPECT_EQ(std::string(problem.status().message()), c.says);
  }
}

// With more than three million pairs alive together, buffers are placed in the order of time.
constexpr int64_t kMany = 2600;

TEST(PackingInTime, OneAfterAnotherTakesTheRoomOfTheOneBefore) {
  Numbers numbers(1);
  PackingProblem problem;
  int64_t sum = 0;
  for (int64_t i = 0; i < kMany; ++i) {
    const int64_t size = 1 + numbers.Below(1000);
    problem.buffers.push_back({std::to_string(i), i, kMany + i, size});
    problem.buffers.push_back({"next " + std::to_string(i), kMany + i, 2 * kMany + i, size});
    sum += size;
  }
  const PackingSolution solution = Pack(problem);
  EXPECT_EQ(CheckPacking(problem, solution), "");
  EXPECT_EQ(solution.height, sum);
  EXPECT_EQ(solution.lower_bound, sum);
  EXPECT_EQ(solution.rounds, 2);  // one forwards and one backwards
  EXPECT_EQ(solution.nodes, 0);
}

// A stack that grows with time is placed without a gap forwards, and one that shrinks backwards.
TEST(PackingInTime, ForwardsOrBackwardsWhicheverIsLower) {
  for (bool backwards : {false, true}) {
    PackingProblem problem;
    problem.alignment = 64;
    Numbers numbers(2);
    for (int64_t i = 0; i < kMany; ++i) {
      PackingBuffer b{std::to_string(i), i, 3 * kMany - numbers.Below(kMany / 2), 1 + numbers.Below(1000)};
      if (backwards) b = {b.id, 3 * kMany - b.upper, 3 * kMany - b.lower, b.size};
      problem.buffers.push_back(b);
    }
    const PackingSolution solution = Pack(problem);
    EXPECT_EQ(CheckPacking(problem, solution), "");
    EXPECT_EQ(solution.height, solution.lower_bound) << backwards;
  }
}

// Freed ranges merge, and the best-fitting range is used.
TEST(PackingInTime, UsesRoomAgain) {
  Numbers numbers(3);
  PackingProblem problem;
  for (int64_t i = 0; i < 2 * kMany; ++i) {
    const int64_t lower = numbers.Below(2 * kMany);
    problem.buffers.push_back(
        {std::to_string(i), lower, lower + kMany + numbers.Below(kMany), 1 + numbers.Below(1000)});
  }
  const PackingSolution solution = Pack(problem);
  EXPECT_EQ(CheckPacking(problem, solution), "");
  EXPECT_LE(solution.height, 2'005'079);  // placing only in the order of time does not reach the bound
  EXPECT_GE(solution.height, solution.lower_bound);
}

}  // namespace
}  // namespace rondo
