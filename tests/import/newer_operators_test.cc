// Operators and forms that are new in opsets 26 to 28.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compiler/import/import.h"
#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

using Whole = std::vector<int64_t>;

// The result of a model with one node for x and y, both i64.
Whole Shifted(const Whole& x, const Whole& y, const std::string& direction) {
  ModelMaker m(28);
  for (const char* name : {"x", "y"})
    m.Input(name, {static_cast<int64_t>(x.size())}, onnx::TensorProto::INT64);
  Set(m.Node("BitShift", {"x", "y"}, {"z"}), "direction", direction);
  m.Output("z");
  auto graph = ImportModel(m.Make(), {}, nullptr);
  if (!graph.ok()) return {};
  const Shape shape = {static_cast<int64_t>(x.size())};
  const auto out = ir::EvaluateGraph(*graph, {Data(DType::kI64, shape, x), Data(DType::kI64, shape, y)});
  Whole z(x.size());
  if (out.ok()) std::memcpy(z.data(), (*out)[0]->bytes.data(), (*out)[0]->bytes.size());
  return z;
}

TEST(BitShiftTest, OfSignedNumbersShiftsTheSignInAndEverythingOut) {
  EXPECT_EQ(Shifted({-8, -1, INT64_MIN, 7, -5, -5, 5}, {1, 63, 62, 1, 64, -1, 200}, "RIGHT"),
            (Whole{-4, -1, -2, 3, -1, -1, 0}));
  EXPECT_EQ(Shifted({-3, 1, 5, 5}, {1, 63, 64, -1}, "LEFT"), (Whole{-6, INT64_MIN, 0, 0}));
}

TEST(CumProdTest, MultipliesFromEitherEndWithOrWithoutItself) {
  const struct {
    int64_t exclusive, reverse;
    Numbers expected;
  } cases[] = {{0, 0, {2, 6, 24, 120, -240}},
               {1, 0, {1, 2, 6, 24, 120}},
               {0, 1, {-240, -120, -40, -10, -2}},
               {1, 1, {-120, -40, -10, -2, 1}}};
  for (const auto& one : cases) {
    ModelMaker m(26);
    m.Input("x", {1, 5});
    m.Ints("axis", {1});
    onnx::NodeProto* node = m.Node("CumProd", {"x", "axis"}, {"y"});
    Set(node, "exclusive", one.exclusive);
    Set(node, "reverse", one.reverse);
    m.Output("y");
    ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 5}, Numbers{2, 3, 4, 5, -2})})[0], one.expected);
  }
}

TEST(SwiGluTest, TheGateIsTheFirstAndAlphaIsInItsSigmoid) {
  ModelMaker m(28);
  m.Input("a", {2});
  m.Input("b", {2});
  Set(m.Node("SwiGLU", {"a", "b"}, {"y"}), "alpha", 2.0f);
  m.Output("y");
  ExpectNear(Evaluate(m, {Data(DType::kF32, {2}, Numbers{1, -3}), Data(DType::kF32, {2}, Numbers{5, 7})})[0],
             {5 / (1 + std::exp(-2.0f)), -21 / (1 + std::exp(6.0f))});
  m.graph()
      ->mutable_input(1)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(1);
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"SwiGLU_y", "a gate of shape [2] for [1]"}));
}

TEST(SpaceToDepthTest, ChannelsMayComeBeforeTheBlocks) {
  ModelMaker m(28);
  m.Input("x", {1, 2, 2, 2});
  onnx::NodeProto* node = m.Node("SpaceToDepth", {"x"}, {"y"});
  Set(node, "blocksize", int64_t{2});
  Set(node, "mode", std::string("CRD"));
  m.Output("y");
  ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 2, 2, 2}, Numbers{0, 1, 2, 3, 4, 5, 6, 7})})[0],
             {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST(BitCastTest, KnownNumbersAndWholeOnesKeepTheirBytes) {
  ModelMaker m(26);
  m.Input("x", {1});
  m.Ints("one", {0x3ff0000000000000});
  Set(m.Node("BitCast", {"one"}, {"f64"}), "to", int64_t{onnx::TensorProto::DOUBLE});
  Set(m.Node("Cast", {"f64"}, {"f32"}), "to", int64_t{onnx::TensorProto::FLOAT});
  Set(m.Node("Cast", {"x"}, {"i32"}), "to", int64_t{onnx::TensorProto::INT32});
  Set(m.Node("BitCast", {"i32"}, {"u32"}), "to", int64_t{onnx::TensorProto::UINT32});
  Set(m.Node("Cast", {"u32"}, {"wide"}), "to", int64_t{onnx::TensorProto::FLOAT});
  m.Node("Add", {"f32", "wide"}, {"y"});
  m.Output("y");
  ExpectNear(Evaluate(m, {Data(DType::kF32, {1}, Numbers{-1})})[0], {4294967296.0f});
  Set(m.Node("BitCast", {"x"}, {"bits"}), "to", int64_t{onnx::TensorProto::INT32});
  m.Output("bits");
  EXPECT_TRUE(
      Says(ImportModel(m.Make(), {}, nullptr).status(), {"BitCast_bits", "f32 as i32", "export the model"}));
}

// They have states like com.microsoft's operators.
TEST(NewerOpsetsTest, HaveStatesOfTheirOwn) {
  ModelMaker m(27);
  m.Input("x", {1, 1, 2});
  m.Input("past", {1, 1, 2});
  m.Floats("w", {1, 1, 3}, {1, 10, 100});
  m.Node("CausalConvWithState", {"x", "w", "", "past"}, {"y", "present"});
  onnx::NodeProto* node = m.Node("LinearAttention", {"rows", "rows", "rows"}, {"z", "state"});
  Set(node, "q_num_heads", int64_t{1});
  Set(node, "kv_num_heads", int64_t{1});
  Set(node, "update_rule", std::string("linear"));
  m.graph()->mutable_node()->SwapElements(0, 1);
  Set(m.Node("Transpose", {"x"}, {"rows"}), "perm", int64_t{0});
  onnx::AttributeProto* order = m.graph()->mutable_node(2)->mutable_attribute(0);
  order->set_type(onnx::AttributeProto::INTS);
  for (const int64_t d : {0, 2, 1}) order->add_ints(d);
  m.graph()->mutable_node()->SwapElements(0, 2);
  for (const char* name : {"y", "present", "z", "state"}) m.Output(name);
  auto graph = ImportModel(m.Make(), {}, nullptr);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto out = ir::EvaluateGraph(
      *graph, {Data(DType::kF32, {1, 1, 2}, Numbers{3, 4}), Data(DType::kF32, {1, 1, 2}, Numbers{1, 2})});
  ASSERT_TRUE(out.ok()) << out.status().message();
  const auto numbers = [&](size_t i) {
    Numbers held(static_cast<size_t>((*out)[i]->shape.elements()));
    std::memcpy(held.data(), (*out)[i]->bytes.data(), (*out)[i]->bytes.size());
    return held;
  };
  ExpectNear(numbers(0), {321, 432});
  ExpectNear(numbers(1), {3, 4});
  ExpectNear(numbers(2), {27, 100});  // 3 * 9, 4 * (9 + 16)
  ExpectNear(numbers(3), {25});
}

}  // namespace
}  // namespace rondo
