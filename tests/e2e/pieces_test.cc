// Pieces of concatenations: each is computed in its place in the result, by any kernel, or `inspect` gives
// the reason.
#include "tests/e2e/alias_model.h"

namespace rondo {
namespace {

using Kind = ExpectationKind;

// z = softmax(c) for a concatenation c that the test makes of a = softmax(x), b = softmax(y).
class Pieces : public AliasModel {
 public:
  Pieces() {
    Input("x", {4, 16});
    Input("y", {4, 16});
    AliasModel::Node("Softmax", {"x"}, {"a"});
    AliasModel::Node("Softmax", {"y"}, {"b"});
  }
  void Finish(const std::string& c = "c") {
    AliasModel::Node("Softmax", {c}, {"z"});
    Output("z");
    Check();
  }
};

TEST(Concatenation, PiecesOfOneOrAnotherAxisLieInIt) {
  for (int64_t axis : {0, 1}) {
    Pieces m;
    m.Node("Concat", {"a", "b"}, {"c"}, "axis", axis);
    m.Finish();
    EXPECT_EQ(m.copied(), 0u);
    EXPECT_EQ(m.arena(), 1024u);
  }
}

TEST(Concatenation, MatmulsOfDifferentWidthsWriteTheirColumns) {
  AliasModel m;
  m.Input("x", {4, 16});
  m.Input("w", {16, 8});
  m.Input("v", {16, 24});
  m.Node("MatMul", {"x", "w"}, {"a"});
  m.Node("MatMul", {"x", "v"}, {"b"});
  m.Node("Concat", {"a", "b"}, {"c"}, "axis", 1);
  m.Node("Softmax", {"c"}, {"z"});
  m.Output("z");
  m.Check();
  EXPECT_EQ(m.copied(), 0u);
}

TEST(Concatenation, TransposedPiecesAreWrittenTransposed) {
  Pieces m;
  m.Node("Transpose", {"a"}, {"ta"});
  m.Node("Transpose", {"b"}, {"tb"});
  m.Node("Concat", {"ta", "tb"}, {"c"}, "axis", 0);
  m.Finish();
  EXPECT_EQ(m.copied(), 0u);
}

TEST(Concatenation, OneInsideAnotherIsOneMemory) {
  Pieces m;
  m.Input("w", {4, 16});
  m.Node("Softmax", {"w"}, {"e"});
  m.Node("Concat", {"a", "b"}, {"d"}, "axis", 1);
  m.Node("Concat", {"d", "e"}, {"c"}, "axis", 1);
  m.Finish();
  EXPECT_EQ(m.copied(), 0u);
}

TEST(Concatenation, AStackIsOneToo) {
  Pieces m;
  m.Ints("front", {0});
  m.Node("Unsqueeze", {"a", "front"}, {"ua"});
  m.Node("Unsqueeze", {"b", "front"}, {"ub"});
  m.Node("Concat", {"ua", "ub"}, {"c"}, "axis", 0);
  m.Finish();
  EXPECT_EQ(m.copied(), 0u);
}

TEST(Concatenation, APieceThatIsChangedIsChangedThere) {
  Pieces m;
  m.Input("u", {1, 16});
  m.Input("row", {1, 1}, onnx::TensorProto::INT64);
  m.Node("ScatterND", {"a", "row", "u"}, {"s"});
  m.Node("Concat", {"s", "b"}, {"c"}, "axis", 0);
  m.Finish();
  EXPECT_EQ(m.copied(), 0u);
}

TEST(Concatenation, ItIsChangedWhereItLies) {
  Pieces m;
  m.Input("u", {1, 16});
  m.Input("row", {1, 1}, onnx::TensorProto::INT64);
  m.Node("Concat", {"a", "b"}, {"d"}, "axis", 0);
  m.Node("ScatterND", {"d", "row", "u"}, {"c"});
  m.Finish();
  EXPECT_EQ(m.copied(), 0u);
}

TEST(Concatenation, WhatReadsAPieceLateKeepsItAsItWas) {
  Pieces m;
  m.Input("u", {1, 16});
  m.Input("w", {16, 16});
  m.Input("row", {1, 1}, onnx::TensorProto::INT64);
  m.Node("MatMul", {"x", "w"}, {"p"});
  m.Node("Concat", {"p", "b"}, {"inner"}, "axis", 0);
  m.Node("Concat", {"inner", "a"}, {"d"}, "axis", 0);
  m.Node("ScatterND", {"d", "row", "u"}, {"c"});
  m.Slice("c", "top", 0, 4);
  m.Node("MatMul", {"top", "w"}, {"late"});
  m.Node("Add", {"late", "p"}, {"other"});
  m.Output("other");
  m.Finish();
}

// Softmax would read the concatenation in another order, in which channels of a convolution are not evenly
// spaced.
TEST(Concatenation, ConvolutionsWriteTheirPiecesWhateverOrderIsRead) {
  AliasModel m;
  m.Input("x", {1, 2, 4, 4});
  m.Input("w", {6, 2, 1, 1});
  m.Node("Conv", {"x", "w"}, {"a"});
  m.Node("Relu", {"a"}, {"b"});
  m.Ints("parts", {1, 1, 2, 3, 4, 4});
  m.Node("Reshape", {"a", "parts"}, {"pa"});
  m.Node("Reshape", {"b", "parts"}, {"pb"});
  m.Node("Concat", {"pa", "pb"}, {"c"}, "axis", 1);
  m.Node("Transpose", {"c"}, {"t"}, "perm", std::vector<int64_t>{0, 3, 4, 1, 2, 5});
  m.Node("Softmax", {"t"}, {"z"});
  m.Output("z");
  m.Check();
}

// z's rows of 4 go over the ends of b's rows of 3, which do not lie one after another in c.
TEST(Concatenation, APieceIsReadInRowsOfAnotherLength) {
  AliasModel m;
  m.Input("x", {4, 4, 3});
  m.Input("y", {4, 4, 3});
  m.Node("Abs", {"x"}, {"b"});
  m.Node("Concat", {"y", "b"}, {"c"}, "axis", 2);
  m.Slice("b", "row", 2, 3);
  m.Ints("rows", {3, 1, 4});
  m.Node("Reshape", {"row", "rows"}, {"z"});
  m.Output("c");
  m.Output("z");
  m.Check();
}

TEST(Concatenation, AnInputBesideOthersIsCopiedThere) {
  Pieces m;
  m.Node("Concat", {"a", "y"}, {"c"}, "axis", 0);
  m.Finish();
  EXPECT_EQ(m.copied(), 256u);
  EXPECT_NE(m.Why().find("input \"y\" is put beside others, and lies elsewhere"), std::string::npos)
      << m.Why();
  for (const Step& step : m.plan().programs[0].steps)  // the copy bears the concatenation's name
    EXPECT_FALSE(step.source == kNone || m.plan().sources[step.source].empty());
}

// What is padded along two axes is made in the middle of the result; only the frame is copied.
TEST(Pad, WithItsOwnElementsCopiesOnlyTheFrame) {
  AliasModel m;
  m.Input("x", {1, 2, 12, 16});
  m.Node("Exp", {"x"}, {"a"});
  m.Ints("pads", {0, 0, 2, 1, 0, 0, 2, 1});
  onnx::AttributeProto* mode = m.ModelMaker::Node("Pad", {"a", "pads"}, {"p"})->add_attribute();
  mode->set_name("mode");
  mode->set_type(onnx::AttributeProto::STRING);
  mode->set_s("reflect");
  m.Node("Softmax", {"p"}, {"z"}, "axis", 1);
  m.Output("z");
  m.Check();
  EXPECT_LE(m.copied(), 4u * 2 * (16 * 18 - 12 * 16)) << m.Why();
}

TEST(Split, PartsAreViews) {
  AliasModel m;
  m.Input("x", {4, 48});
  m.Input("w", {16, 16});
  m.Node("Softmax", {"x"}, {"a"});
  for (int64_t k = 0; k < 3; ++k) m.Slice("a", "p" + std::to_string(k), 16 * k, 16 * k + 16, 1);
  m.Node("MatMul", {"p0", "w"}, {"s"});
  m.Node("MatMul", {"p1", "w"}, {"t"});
  m.Node("Add", {"s", "t"}, {"u"});
  m.Node("Mul", {"u", "p2"}, {"z"});
  m.Output("z");
  m.Check();
  EXPECT_EQ(m.copied(), 0u);
}

TEST(Outputs, WhatIsAnInputOrAnotherOutputIsCopied) {
  AliasModel m;
  m.Input("x", {8, 16});
  m.Node("Identity", {"x"}, {"same"});
  m.Slice("x", "part", 2, 6);
  m.Node("Relu", {"x"}, {"first"});
  m.Node("Identity", {"first"}, {"again"});
  for (const char* output : {"same", "part", "first", "again"}) m.Output(output);
  m.Check();
  EXPECT_LE(m.copied(), 512u + 256 + 512);
  EXPECT_NE(m.Why().find("output \"same\" is input \"x\", and each has memory of its own"), std::string::npos)
      << m.Why();
  EXPECT_NE(m.Why().find("output \"part\" is part of input \"x\", and each has memory of its own"),
            std::string::npos)
      << m.Why();
}

}  // namespace
}  // namespace rondo
