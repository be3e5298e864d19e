// The definition of the arithmetic, for inputs whose results are known.
#include "core/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace rondo {
namespace {

using scalar::Binary;
using scalar::Unary;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

TEST(ScalarOps, OfIntegersAreTotal) {
  EXPECT_EQ(Binary<int64_t>(TapeOp::kDiv, 7, 0), 0);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kDiv, kLeast, -1), kLeast);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kMod, -7, 3), 2);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kMod, 7, -3), -2);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kMod, kLeast, -1), 0);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kFmod, -7, 3), -1);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kShl, 1, 64), 0);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kShl, 1, -1), 0);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kShr, -1, 63), 1);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kShr, -1, 64), 0);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kPow, 2, 64), 0);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kPow, -1, -3), -1);
  EXPECT_EQ(Binary<int64_t>(TapeOp::kAtan2, 1, -1), 2);
  EXPECT_EQ(Unary<int64_t>(TapeOp::kSqrt, -1), 0);  // a NaN as an integer
  EXPECT_EQ(Unary<int64_t>(TapeOp::kExp, 100), kMost);
  EXPECT_EQ(Unary<int64_t>(TapeOp::kLog, 0), kLeast);
  EXPECT_EQ(Unary<int64_t>(TapeOp::kAbs, kLeast), kLeast);
  EXPECT_EQ(scalar::Test<int64_t>(TapeOp::kIsInf, kMost, 3), 0);
}

TEST(ScalarOps, KeepTheSignsOfZeros) {
  EXPECT_FALSE(std::signbit(Binary<double>(TapeOp::kMod, -4, 2)));
  EXPECT_TRUE(std::signbit(Binary<double>(TapeOp::kMod, 4, -2)));
  EXPECT_TRUE(std::signbit(Binary<float>(TapeOp::kFmod, -4, 2)));
  EXPECT_FALSE(std::signbit(Unary<float>(TapeOp::kSign, -0.0f)));
  EXPECT_TRUE(std::signbit(Unary<float>(TapeOp::kTanh, -0.0f)));
  EXPECT_TRUE(std::signbit(Unary<float>(TapeOp::kRound, -0.5f)));
}

TEST(ScalarOps, CastsTruncateSaturateAndWrap) {
  EXPECT_EQ((scalar::Cast<int64_t, double>(-1.5, DType::kU64)), -1);  // the bits of 2^64 - 1
  EXPECT_EQ((scalar::Cast<int64_t, double>(-kInf, DType::kU64)), kLeast);
  EXPECT_EQ((scalar::Cast<int64_t, double>(1e20, DType::kU64)), -1);
  EXPECT_EQ((scalar::Cast<int64_t, double>(9223372036854775808.0, DType::kU64)), kLeast);
  EXPECT_EQ((scalar::Cast<int64_t, float>(-1.5f, DType::kU32)), 4294967295);
  EXPECT_EQ((scalar::Cast<int64_t, float>(3e9f, DType::kI32)), 3000000000 - 4294967296);
  EXPECT_EQ((scalar::Cast<int64_t, double>(kNaN, DType::kI64)), 0);
  EXPECT_EQ((scalar::Cast<int64_t, double>(kNaN, DType::kBool)), 1);
  EXPECT_EQ((scalar::Cast<int64_t, float>(0.5f, DType::kBool)), 1);
  EXPECT_EQ((scalar::Cast<float, float>(65520.0f, DType::kF16)), std::numeric_limits<float>::infinity());
}

TEST(ScalarOps, TruthsAreStoredAsOne) {
  uint8_t stored[3] = {7, 7, 7};
  scalar::Store<float>(DType::kBool, stored, 0, 0.5f);
  scalar::Store<int64_t>(DType::kBool, stored, 1, 256);
  scalar::Store<double>(DType::kBool, stored, 2, 0);
  EXPECT_EQ(std::vector<uint8_t>(stored, stored + 3), (std::vector<uint8_t>{1, 1, 0}));
}

// Powers are compared with repeated products; quotients and remainders with their definition.
TEST(ScalarOps, OfIntegersAreThoseOfSchool) {
  for (int64_t a = -9; a <= 9; ++a) {
    uint64_t power = 1;
    for (int64_t b = 0; b <= 70; ++b, power *= static_cast<uint64_t>(a)) {
      EXPECT_EQ(Binary<int64_t>(TapeOp::kPow, a, b), static_cast<int64_t>(power)) << a << " " << b;
      const int64_t reciprocal = b == 0 || a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
      EXPECT_EQ(Binary<int64_t>(TapeOp::kPow, a, -b), reciprocal) << a << " " << -b;
    }
    for (int64_t b = -9; b <= 9; ++b) {
      const int64_t quotient = Binary<int64_t>(TapeOp::kDiv, a, b);
      const int64_t rest = Binary<int64_t>(TapeOp::kFmod, a, b), mod = Binary<int64_t>(TapeOp::kMod, a, b);
      EXPECT_EQ(quotient, b == 0 ? 0 : static_cast<int64_t>(std::trunc(double(a) / double(b))));
      EXPECT_EQ(rest, b == 0 ? 0 : a - quotient * b);
      EXPECT_EQ(mod, b == 0 ? 0 : a - static_cast<int64_t>(std::floor(double(a) / double(b))) * b);
    }
    for (const TapeOp op : {TapeOp::kIsNan, TapeOp::kIsInf}) EXPECT_EQ(scalar::Test<int64_t>(op, a, 3), 0);
    EXPECT_EQ(scalar::Test<int64_t>(TapeOp::kNot, a, 0), a == 0);
  }
}

TEST(TapeOps, ReadAsManyRegistersAsTheyName) {
  EXPECT_EQ(Inputs(TapeOp::kLoad), 0);
  EXPECT_EQ(Inputs(TapeOp::kStore), 1);
  EXPECT_EQ(Inputs(TapeOp::kCast), 1);
  EXPECT_EQ(Inputs(TapeOp::kBitAnd), 2);
  EXPECT_EQ(Inputs(TapeOp::kLess), 2);
  EXPECT_EQ(Inputs(TapeOp::kSelect), 3);
  EXPECT_EQ(Inputs(TapeOp::kFma), 3);
}

TEST(TapeOps, HaveNumbersNamesAndClassesOfTheirOwn) {
  std::set<std::string> names;
  int known = 0;
  for (int number = 0; number < 256; ++number) {
    const TapeOp op = static_cast<TapeOp>(number);
    if (ClassOf(op) == OpClass::kUnknown) {
      EXPECT_STREQ(Name(op), "?");
      continue;
    }
    ++known;
    EXPECT_TRUE(names.insert(Name(op)).second) << Name(op);
  }
#define RONDO_OP_COUNT(name, number, text, accuracy) +1
  EXPECT_EQ(known, 0 RONDO_TAPE_OPS(RONDO_OP_COUNT));
#undef RONDO_OP_COUNT
}

}  // namespace
}  // namespace rondo
