// Sizes that are known only at run time: their forms and bounds agree with numbers.
#include "compiler/ir/size.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace rondo::ir {
namespace {

struct Named {
  std::string name;
  int64_t least, most, extent;
};
const std::vector<Named> kNames = {{"a", 0, 6, 6}, {"b", 1, 5, 4}, {"c", 2, 4, 3}};

// An expression as a size, and as numbers for every value of the names.
struct Both {
  Size size;
  std::vector<int64_t> numbers;
};

std::vector<std::vector<int64_t>> AllValues() {
  std::vector<std::vector<int64_t>> all;
  for (int64_t a = 0; a <= 6; ++a) {
    for (int64_t b = 1; b <= 5; ++b) {
      for (int64_t c = 2; c <= 4; ++c) all.push_back({a, b, c});
    }
  }
  return all;
}

Both Drawn(std::mt19937* random, int depth) {
  const auto values = AllValues();
  const auto draw = [&](int n) { return static_cast<int>((*random)() % static_cast<uint32_t>(n)); };
  if (depth == 0 || draw(4) == 0) {
    const auto which = static_cast<size_t>(draw(4));
    if (which == 3) {
      const int64_t number = draw(11) - 4;
      return {number, std::vector<int64_t>(values.size(), number)};
    }
    const Named& n = kNames[which];
    Both one{Size::Name(n.name, n.least, n.most, n.extent), {}};
    for (const auto& v : values) one.numbers.push_back(v[which]);
    return one;
  }
  const Both x = Drawn(random, depth - 1), y = Drawn(random, depth - 1);
  const int op = draw(7);
  const bool divides = std::all_of(y.numbers.begin(), y.numbers.end(), [](int64_t v) { return v >= 1; });
  Both out{op == 0   ? x.size + y.size
           : op == 1 ? x.size - y.size
           : op == 2 ? x.size * y.size
           : op == 3 ? Min(x.size, y.size)
           : op == 4 ? Max(x.size, y.size)
           : op == 5 ? FloorDiv(x.size, y.size)
                     : Mod(x.size, y.size),
           {}};
  if (op >= 5 && !divides) return x;
  for (size_t i = 0; i < x.numbers.size(); ++i) {
    const int64_t a = x.numbers[i], b = y.numbers[i];
    const auto floor = [&] { return a / b - (a % b < 0 ? 1 : 0); };
    out.numbers.push_back(op == 0   ? a + b
                          : op == 1 ? a - b
                          : op == 2 ? a * b
                          : op == 3 ? std::min(a, b)
                          : op == 4 ? std::max(a, b)
                          : op == 5 ? floor()
                                    : a - b * floor());
  }
  return out;
}

TEST(SizeTest, IsWhatNumbersSay) {
  std::mt19937 random(7);
  const auto values = AllValues();
  int followed = 0;
  for (int round = 0; round < 3000; ++round) {
    const Both one = Drawn(&random, 4), other = Drawn(&random, 3);
    if (one.size.unknown()) continue;
    ++followed;
    SCOPED_TRACE(one.size.Text());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value_of = [&](const std::string& name) {
        return values[i][name == "a" ? 0 : name == "b" ? 1 : 2];
      };
      ASSERT_EQ(one.size.Evaluate(value_of), one.numbers[i]);
      ASSERT_LE(one.size.least(), one.numbers[i]);
      ASSERT_GE(one.size.most(), one.numbers[i]);
      if (values[i] == std::vector<int64_t>{6, 4, 3}) {
        ASSERT_EQ(one.size.extent(), one.numbers[i]);
      }
    }
    if (one.size == other.size) {
      ASSERT_EQ(one.numbers, other.numbers);
    }
    if (const auto quotient = Size::Divide(one.size, other.size)) {
      ASSERT_EQ(*quotient * other.size, one.size);
    }
    if (const auto number = one.size.value()) {
      ASSERT_EQ(*number, one.numbers[0]);
    }
  }
  EXPECT_GT(followed, 2000);
}

const Size past = Size::Name("past", 0, 30, 30);
const Size total = past + 2;

TEST(SizeTest, EqualSizesHaveEqualForms) {
  EXPECT_EQ(total - past, Size(2));
  EXPECT_EQ(Min(total, 5), Size(5) + Min(total - 5, 0));
  EXPECT_EQ(Max(past, 7), past + Max(Size(7) - past, 0));
  EXPECT_EQ(Min(past, 7) + Max(past, 7), past + 7);
  EXPECT_EQ(FloorDiv(total * 8 + 3, 8), total);
  EXPECT_EQ(Mod(total * 8 + 3, 8), Size(3));
  EXPECT_EQ(*Size::Divide(total * total * 3, total), total * 3);
  EXPECT_FALSE(Size::Divide(total * 3, 2).has_value());
  EXPECT_FALSE(Size::Divide(total, past).has_value());
}

TEST(SizeTest, BoundsDecideAtOnce) {
  EXPECT_EQ(Min(total, 32), total);
  EXPECT_EQ(Max(total, 2), total);
  EXPECT_EQ(Max(total, 0), total);
  EXPECT_FALSE(Min(total, 31) == total);
  // The first of the last five elements, and the number of these.
  const Size first = Max(total - 5, 0), count = total - first;
  EXPECT_EQ(count, Min(total, 5));
  EXPECT_EQ(count.least(), 2);
  EXPECT_EQ(count.most(), 5);
  EXPECT_EQ(Max(count, 0), count);
  EXPECT_EQ(first.extent(), 27);
}

TEST(SizeTest, WhatIsUnknownStaysSoAndKeepsItsExtent) {
  const Size unknown = Size::Unknown(6);
  EXPECT_TRUE((unknown + total).unknown());
  EXPECT_EQ((unknown + total).extent(), 38);
  EXPECT_FALSE(unknown == unknown);
  EXPECT_TRUE(FloorDiv(total, past).unknown());  // the divisor may be 0
  Size grown = total;
  for (int i = 0; i < 30; ++i) grown = Min(grown * grown, past + i);
  EXPECT_TRUE(grown.unknown());
}

TEST(SizeTest, ArithmeticStopsAtTheEndsOfItsRange) {
  const Size end = INT64_MAX;
  EXPECT_EQ(Min(end, total), total);
  EXPECT_EQ((end + 1).value(), INT64_MAX);
  EXPECT_EQ((end * -2).value(), INT64_MIN);
}

}  // namespace
}  // namespace rondo::ir
