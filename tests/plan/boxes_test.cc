#include "formats/plan/check/boxes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace rondo::check {
namespace {

std::set<int64_t> Bytes(const Box& box) {
  std::set<int64_t> bytes = {box.base};
  for (int d = 0; d < box.rank; ++d) {
    std::set<int64_t> next;
    for (int64_t byte : bytes) {
      for (int64_t i = 0; i < box.dims[d].extent; ++i) next.insert(byte + i * box.dims[d].stride);
    }
    bytes = next;
  }
  return bytes;
}

// Loops over a tensor of 4-byte elements with extents `dims`, each over a part of one axis.
Box RandomSlice(std::mt19937& random, const std::vector<int64_t>& dims) {
  std::vector<BoxDim> loops;
  int64_t stride = 4, base = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    const int64_t first = static_cast<int64_t>(random() % static_cast<uint64_t>(dims[d]));
    const int64_t count = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(dims[d] - first));
    base += first * stride;
    const bool backward = random() % 2 == 0;
    if (backward) base += (count - 1) * stride;
    loops.push_back({backward ? -stride : stride, count});
    stride *= dims[d];
  }
  return StridedBox(base, 4, loops.data(), static_cast<int>(loops.size()));
}

TEST(Boxes, LoopsThatContinueOneAnotherBecomeOneRun) {
  const BoxDim dims[] = {{32, 4}, {4, 8}};
  const Box box = StridedBox(100, 4, dims, 2);
  EXPECT_TRUE(box.dense());
  EXPECT_EQ(box.base, 100);
  EXPECT_EQ(box.end, 228);
}

TEST(Boxes, OverlappingWindowsBecomeOneRun) {
  const BoxDim dims[] = {{4, 10}, {4, 3}};
  const Box box = StridedBox(0, 4, dims, 2);
  EXPECT_TRUE(box.dense());
  EXPECT_EQ(box.end, 48);
}

TEST(Boxes, SharingIsExactOnSlicesOfOneTensor) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<int64_t> dims = {3, 4, 5};
    const Box a = RandomSlice(random, dims), b = RandomSlice(random, dims);
    const std::set<int64_t> in_a = Bytes(a), in_b = Bytes(b);
    bool share = false;
    for (int64_t byte : in_a) share |= in_b.count(byte) != 0;
    Work work((PlanData()));
    ASSERT_EQ(MayShare(a, b, work), share) << "round " << round;
  }
}

TEST(Boxes, RemaindersAreExactOnSlicesOfOneTensor) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<int64_t> dims = {3, 4, 5};
    const Box read = RandomSlice(random, dims);
    std::vector<Box> writes;
    Grid grid;
    ASSERT_TRUE(grid.Add(read));
    for (int i = 0; i < 6; ++i) writes.push_back(RandomSlice(random, dims));
    for (const Box& write : writes) ASSERT_TRUE(grid.Add(write));
    Work work((PlanData()));
    Remainder rest(grid, 0, read, work);
    std::set<int64_t> left = Bytes(read);
    for (const Box& write : writes) {
      rest.Subtract(write);
      for (int64_t byte : Bytes(write)) left.erase(byte);
    }
    ASSERT_EQ(rest.empty(), left.empty()) << "round " << round;
    if (!rest.empty()) {
      ASSERT_EQ(left.count(rest.FirstByte()), 1u);
    }
  }
}

// Loops that begin anywhere, and may extend beyond the next larger stride.
Box RandomLoops(std::mt19937& random) {
  std::vector<BoxDim> loops;
  for (int64_t stride : {4, 20, 40, 160}) {
    if (random() % 3 != 0) loops.push_back({stride, 1 + static_cast<int64_t>(random() % 7)});
  }
  const int64_t base = 4 * static_cast<int64_t>(random() % 60);
  return StridedBox(base, 4, loops.data(), static_cast<int>(loops.size()));
}

TEST(Boxes, WhatCarriesIntoTheNextDigitIsExactToo) {
  std::mt19937 random(3);
  int shared = 0, apart = 0, whole = 0;
  for (int round = 0; round < 4000; ++round) {
    const Box a = RandomLoops(random), b = RandomLoops(random);
    const std::set<int64_t> in_a = Bytes(a), in_b = Bytes(b);
    bool share = false;
    std::set<int64_t> left = in_a;
    for (int64_t byte : in_b) share |= left.erase(byte) != 0;
    Work work((PlanData()));
    ASSERT_EQ(MayShare(a, b, work), share) << "round " << round;
    ++(share ? shared : apart);
    Grid grid;
    if (!grid.Add(a) || !grid.Add(b)) continue;
    Remainder rest(grid, 0, a, work);
    rest.Subtract(b);
    ASSERT_EQ(rest.empty(), left.empty()) << "round " << round;
    if (!rest.empty()) {
      ASSERT_EQ(left.count(rest.FirstByte()), 1u);
    }
    whole += left.empty();
  }
  EXPECT_GT(shared, 100);
  EXPECT_GT(apart, 100);
  EXPECT_GT(whole, 10);
}

TEST(Boxes, StridesThatDoNotDivideOneAnotherMayShare) {
  const BoxDim twelve = {12, 4}, eight = {8, 4};
  Work work((PlanData()));
  EXPECT_TRUE(MayShare(StridedBox(0, 4, &twelve, 1), StridedBox(4, 4, &eight, 1), work));
}

}  // namespace
}  // namespace rondo::check
