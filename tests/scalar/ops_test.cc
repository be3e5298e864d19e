// Every operation in every type over edge values: compares the definition with the compiler's evaluator and
// with the host driver with every instruction set. tests/core tests the definition itself.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compiler/ir/evaluate.h"
#include "core/scalar.h"
#include "tests/host/driver_case.h"
#include "tests/scalar/op_sheets.h"

namespace rondo::test {
namespace {

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
