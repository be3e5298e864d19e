// Every operation, of every type, over edge values: the definition against itself where it is known, and
// against the compiler's evaluator and the host driver with every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "compiler/ir/evaluate.h"
#include "core/scalar.h"
#include "tests/host/driver_case.h"
#include "tests/scalar/op_sheets.h"

namespace rondo::test {
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

// The operation as one node of the IR, over constants.
std::vector<uint8_t> Evaluate(const OpSheet& sheet, const OpColumn& column) {
  ir::Node node;
  node.op = ir::Op::kPointwise;
  node.attrs = ir::PointwiseAttrs{column.op, column.imm};
  node.dtype = column.dtype;
  node.shape = Shape({sheet.rows});
  ir::Values inputs;
  for (size_t k = 0; k < sheet.inputs.size(); ++k) {
    inputs.push_back(ir::ConstantData::Own(
        sheet.inputs[k], node.shape, std::vector<uint8_t>(sheet.values[k].begin(), sheet.values[k].end())));
  }
  Result<std::shared_ptr<const ir::ConstantData>> out = ir::EvaluateNode(node, inputs);
  EXPECT_TRUE(out.ok()) << out.status().message();
  if (!out.ok()) return {};
  return {(*out)->bytes.begin(), (*out)->bytes.end()};
}

TEST(EveryOp, IsEvaluatedByTheCompilerAsDefined) {
  for (const OpSheet& sheet : EveryOpSheet()) {
    for (const OpColumn& column : sheet.columns) {
      const std::vector<uint8_t> got = Evaluate(sheet, column);
      ASSERT_FALSE(got.empty());
      EXPECT_EQ(sheet.Difference(column, reinterpret_cast<const char*>(got.data())), "");
    }
  }
}

class EveryOpOnHost : public testing::TestWithParam<uint32_t> {};

TEST_P(EveryOpOnHost, IsComputedAsDefined) {
  HostOptions options;
  options.max_isa = GetParam();
  HostFixture host(options);
  for (const OpSheet& sheet : EveryOpSheet()) {
    Arena arena;
    PartMaker maker(&arena);
    sheet.Make(&maker);
    const Kernel kernel = maker.Make();
    Memory memory = sheet.Fill(maker);
    Module* module = host.Load(kernel);
    ASSERT_NE(module, nullptr) << sheet.name;
    ASSERT_TRUE(host.Launch(module, &memory).ok()) << sheet.name;
    host.device->DestroyModule(module);
    for (size_t c = 0; c < sheet.columns.size(); ++c)
      EXPECT_EQ(sheet.Difference(sheet.columns[c], memory.params[sheet.inputs.size() + c].data()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, EveryOpOnHost, testing::Values(0u, 1u, 2u));

}  // namespace
}  // namespace rondo::test
