// Compares every operation in every type over edge values on a GPU with the definition in core/scalar.h.
#include <cstring>

#include "tests/cuda/gpu_suite.h"
#include "tests/scalar/op_sheets.h"

namespace rondo::test {
namespace {

TEST(GpuOps, EveryOpIsComputedAsDefined) {
  Suite suite;
  static const std::vector<OpSheet> sheets = EveryOpSheet();
  for (const OpSheet& sheet : sheets) {
    Case& c = suite.Add(sheet.name);
    sheet.Make(&c.maker);
    c.memory = sheet.Fill(c.maker);
    c.canaries = false;  // tangents and powers of large numbers differ
    c.difference = [&sheet](const Memory& got) {
      std::string text;
      for (size_t i = 0; i < sheet.columns.size(); ++i)
        text += sheet.Difference(sheet.columns[i], got.params[sheet.inputs.size() + i].data());
      return text;
    };
  }
  suite.Run();
}

// Functions that are only stored in 16 bits are shorter (device/quick_scalar.cuh). For every number of the
// type: f(x) and f(x) + 1, which has a function of its own for some f.
TEST(GpuOps, FunctionsOf16BitsMatchTheReferenceEverywhere) {
  Suite suite;
  suite.each = 1;
  for (const DType type : {DType::kF16, DType::kBF16}) {
    for (const TapeOp op : {TapeOp::kExp, TapeOp::kSigmoid, TapeOp::kTanh, TapeOp::kErf}) {
      Case& c = suite.Add(std::string(Name(op)) + " " + Name(type));
      PartMaker& maker = c.maker;
      maker.part.skeleton = Skeleton::kMap;
      maker.part.outer = 1;
      maker.loops = {1 << 16};
      const uint16_t x = maker.Operand(type, Mode::kRead, {0}), y = maker.Operand(type, Mode::kWrite, {0}),
                     z = maker.Operand(type, Mode::kWrite, {0});
      TapeMaker body;
      const uint16_t of = body.Unary(op, body.Load(x, type));
      body.Store(y, type, of);
      body.Store(z, type, body.Binary(TapeOp::kAdd, of, body.Const(1)));
      maker.part.body = maker.Keep(body);
      Random random(1);
      c.memory.Randomise(maker, random);
      for (size_t k = 0; k < 1 << 16; ++k) {
        const auto bits = static_cast<uint16_t>(k);
        std::memcpy(c.memory.params[0].data() + 2 * k, &bits, 2);
      }
      c.tolerance = {2e-6, type == DType::kF16 ? 1e-3 : 8e-3};
    }
  }
  suite.Run();
  EXPECT_EQ(suite.Count("quick_"), 8u);
  EXPECT_EQ(suite.Count("_plus_1"), 4u);
}

}  // namespace
}  // namespace rondo::test
