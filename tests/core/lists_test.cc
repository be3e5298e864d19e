// Lists and shapes, the small containers that all other code uses.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "core/list.h"
#include "core/shape.h"

namespace rondo {
namespace {

std::vector<int> Contents(const GrowingList<int>& list) { return {list.begin(), list.end()}; }

TEST(GrowingLists, HoldWhatAVectorWould) {
  std::mt19937 rng(7);
  GrowingList<int> list;
  std::vector<int> vector;
  for (int step = 0; step < 2000; ++step) {
    const int value = static_cast<int>(rng() % 20);
    switch (rng() % 8) {
      case 0:
        if (vector.empty()) break;
        list.pop_back();
        vector.pop_back();
        break;
      case 1: {
        list.Forget(value);
        const auto found = std::find(vector.begin(), vector.end(), value);
        if (found != vector.end()) vector.erase(found);
        break;
      }
      case 2: {
        if (vector.empty()) break;
        EXPECT_TRUE(list.push_back(list.front()));  // the element lies in the list that grows
        vector.push_back(int{vector.front()});
        break;
      }
      case 3: {
        GrowingList<int> moved(std::move(list));
        EXPECT_TRUE(list.empty());  // NOLINT
        list = std::move(moved);
        break;
      }
      default: EXPECT_TRUE(list.push_back(value)); vector.push_back(value);
    }
    ASSERT_EQ(Contents(list), vector);
    ASSERT_GE(list.room(), list.size());
    EXPECT_TRUE(vector.empty() || list.back() == vector.back());
  }
  EXPECT_TRUE(list.ok());
  EXPECT_EQ(Contents(GrowingList<int>(vector.data(), vector.size())), vector);
  EXPECT_EQ(Contents(GrowingList<int>::Filled(5, 3)), std::vector<int>(5, 3));
  list.clear();
  EXPECT_TRUE(list.empty());
}

TEST(GrowingLists, TakeMemoryWithTheFirstElementAndSeldomAfterwards) {
  GrowingList<int> list;
  EXPECT_EQ(list.room(), 0u);
  int grown = 0;
  for (int i = 0; i < 10000; ++i) {
    const size_t room = list.room();
    list.push_back(i);
    grown += list.room() != room;
  }
  EXPECT_LE(grown, 12);
}

TEST(GrowingLists, SayThatMemoryRanOutAndKeepWhatTheyHave) {
  GrowingList<int> list;
  EXPECT_TRUE(list.push_back(1));
  EXPECT_FALSE(list.Reserve(~size_t{0} / sizeof(int)));
  EXPECT_FALSE(list.Reserve(~size_t{0} / sizeof(int) + 1));
  EXPECT_FALSE(list.ok());
  EXPECT_EQ(Contents(list), std::vector<int>{1});
  EXPECT_EQ(GrowingList<int>::Filled(~size_t{0}, 1).size(), 0u);
}

TEST(Shapes, HaveAtMostTwelveExtents) {
  std::vector<int64_t> dims;
  int64_t elements = 1;
  for (int rank = 0; rank <= kMaxRank + 2; ++rank) {
    const Shape shape{Span<const int64_t>(dims.data(), dims.size())};
    EXPECT_EQ(shape.rank, std::min(rank, kMaxRank));
    EXPECT_EQ(std::vector<int64_t>(shape.begin(), shape.end()),
              std::vector<int64_t>(dims.begin(), dims.begin() + shape.rank));
    EXPECT_EQ(shape.elements(), elements);
    if (rank < kMaxRank) elements *= rank + 2;
    dims.push_back(rank + 2);
  }
  EXPECT_EQ((Shape{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}.rank), kMaxRank);
  EXPECT_EQ((Shape{4, 0, 5}.elements()), 0);
  EXPECT_EQ((Shape{4, 5}), (Shape{4, 5}));
  EXPECT_FALSE((Shape{4, 5} == Shape{4, 5, 1}));
  EXPECT_FALSE((Shape{4, 5} == Shape{5, 4}));
}

}  // namespace
}  // namespace rondo
