// Texts without their padding rows, compared with the same model with them.
#include <gtest/gtest.h>

#include "compiler/import/import.h"
#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

constexpr int64_t kTextCount = 3, kRowCount = 4, kRowWidth = 8, kHeadCount = 2;

// A layer of attention with the nodes around it, with packed rows or not. The texts have 2, 4 and 1 real
// rows. `heads`: queries, keys and values are separate.
ModelMaker Layer(bool packed, bool heads, bool biased) {
  ModelMaker m;
  m.Input("x", {kTextCount, kRowCount, kRowWidth});
  m.Input("count", {kTextCount}, onnx::TensorProto::INT32);
  const size_t square = kRowWidth * kRowWidth;
  m.Floats("w", {kRowWidth, 3 * kRowWidth}, Random(3 * square, 1));
  m.Floats("b", {3 * kRowWidth}, Random(3 * kRowWidth, 2));
  for (const char* name : {"wq", "wk", "wv"}) m.Floats(name, {kRowWidth, kRowWidth}, Random(square, 3));
  m.Floats("gamma", {kRowWidth}, Random(kRowWidth, 4));
  m.Floats("beta", {kRowWidth}, Random(kRowWidth, 5));
  m.Floats("gelu", {kRowWidth}, Random(kRowWidth, 6));
  m.Floats("scores", {1, kHeadCount, kRowCount, kRowCount}, Random(kHeadCount * kRowCount * kRowCount, 7));
  const std::string rows = packed ? "rows" : "x", scores = biased ? "scores" : "";
  if (packed) Microsoft(m, "RemovePadding", {"x", "count"}, {"rows", "offset", "sums", "most"});
  std::vector<std::string> inputs;
  if (heads) {
    for (const char* part : {"q", "k", "v"}) m.Node("MatMul", {rows, std::string("w") + part}, {part});
    inputs = packed ? std::vector<std::string>{"q", "k", "v", "b", "offset", "sums", scores}
                    : std::vector<std::string>{"q", "k", "v", "b", "count", scores};
  } else {
    inputs = packed ? std::vector<std::string>{rows, "w", "b", "offset", "sums", scores}
                    : std::vector<std::string>{rows, "w", "b", "count", "", scores};
  }
  const std::string name = heads ? "MultiHeadAttention" : "Attention";
  Set(Microsoft(m, packed ? "Packed" + name : name, inputs, {"y"}), "num_heads", kHeadCount);
  Microsoft(m, "SkipLayerNormalization", {"y", rows, "gamma", "beta"}, {"normal"});
  Microsoft(m, "BiasGelu", {"normal", "gelu"}, {"last"});
  if (packed) Microsoft(m, "RestorePadding", {"last", "offset"}, {"out"});
  m.Output(packed ? "out" : "last");
  return m;
}

TEST(PackedRowsTest, MeanWhatPaddedOnesDoAndPaddingIsZero) {
  const std::vector<int32_t> count = {2, 4, 1};
  const ir::Values inputs = {
      Data(DType::kF32, {kTextCount, kRowCount, kRowWidth}, Random(kTextCount * kRowCount * kRowWidth, 9)),
      Data(DType::kI32, {kTextCount}, count)};
  for (const bool heads : {false, true}) {
    for (const bool biased : {false, true}) {
      ModelMaker packed = Layer(true, heads, biased), padded = Layer(false, heads, biased);
      Numbers expected = Evaluate(padded, inputs)[0];
      for (int64_t i = 0; i < std::ssize(expected); ++i) {
        const int64_t row = i / kRowWidth;
        if (row % kRowCount >= count[static_cast<size_t>(row / kRowCount)])
          expected[static_cast<size_t>(i)] = 0;
      }
      ExpectNear(Evaluate(packed, inputs)[0], expected);
    }
  }
}

TEST(PackedRowsTest, WhatSeesHowManyThereAreIsRefused) {
  ModelMaker offsets = Layer(true, false, false);
  offsets.Output("offset");
  EXPECT_TRUE(Says(ImportModel(offsets.Make(), {}, nullptr).status(),
                   {"RemovePadding \"RemovePadding_rows\"", "the output \"offset\" has it"}));

  ModelMaker sum = Layer(true, false, false);
  Set(sum.Node("ReduceSum", {"last"}, {"sum"}), "keepdims", int64_t{0});
  sum.Output("sum");
  EXPECT_TRUE(Says(ImportModel(sum.Make(), {}, nullptr).status(), {"ReduceSum_sum", "RemovePadding_rows"}));

  ModelMaker first = Layer(true, false, false);
  Microsoft(first, "SkipLayerNormalization", {"most", "most", "most"}, {"z"});
  first.Output("z");
  EXPECT_TRUE(Says(ImportModel(first.Make(), {}, nullptr).status(), {"SkipLayerNormalization_z"}));
}

TEST(PackedRowsTest, RowsThatNobodyPackedAreRefused) {
  ModelMaker m;
  m.Input("rows", {5, kRowWidth});
  m.Input("offset", {2, 3}, onnx::TensorProto::INT32);
  m.Input("sums", {3}, onnx::TensorProto::INT32);
  m.Floats("w", {kRowWidth, 3 * kRowWidth}, Random(3 * kRowWidth * kRowWidth, 1));
  m.Floats("b", {3 * kRowWidth}, Random(3 * kRowWidth, 2));
  Set(Microsoft(m, "PackedAttention", {"rows", "w", "b", "offset", "sums"}, {"y"}), "num_heads", kHeadCount);
  m.Output("y");
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(),
                   {"PackedAttention \"PackedAttention_y\"", "RemovePadding", "with padding"}));
}

}  // namespace
}  // namespace rondo
