// Dimensions whose length is known only at run time, compared with loops over their real elements.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "compiler/import/import.h"
#include "compiler/ir/evaluate.h"
#include "tests/import/model_maker.h"

namespace rondo {
namespace {

using Numbers = std::vector<float>;
constexpr int kTokens = 5, kWidth = 3, kOut = 2;

template <typename T>
std::shared_ptr<const ir::ConstantData> Data(DType dtype, const Shape& shape, const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return ir::ConstantData::Own(dtype, shape, bytes);
}

Numbers Random(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Numbers numbers(count);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

void Set(onnx::NodeProto* node, const char* name, int64_t value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}
void Set(onnx::NodeProto* node, const char* name, const char* value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::STRING);
  attribute->set_s(value);
}
void Scalar(ModelMaker& m, const std::string& name, int64_t value) {
  onnx::TensorProto* t = m.graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(onnx::TensorProto::INT64);
  t->add_int64_data(value);
}

Result<Numbers> Evaluated(ModelMaker& m, const ir::Values& inputs) {
  RONDO_ASSIGN_OR_RETURN(ir::Graph graph, ImportModel(m.Make(), {}, nullptr));
  RONDO_ASSIGN_OR_RETURN(auto out, ir::EvaluateGraph(graph, inputs));
  Numbers numbers(static_cast<size_t>(out[0]->shape.elements()));
  std::memcpy(numbers.data(), out[0]->bytes.data(), out[0]->bytes.size());
  return numbers;
}

Numbers Weight() { return {1, 2, -1, 0.5f, 3, -2}; }  // [kWidth, kOut]

// y for each chosen token, 0 for the others.
Numbers OfChosen(const Numbers& x, const std::vector<bool>& chosen) {
  Numbers y(kTokens * kOut);
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t o = 0; o < kOut && chosen[t]; ++o) {
      for (size_t i = 0; i < kWidth; ++i) y[t * kOut + o] += x[t * kWidth + i] * Weight()[i * kOut + o];
    }
  }
  return y;
}

void ExpectSame(const Result<Numbers>& got, const Numbers& expected) {
  ASSERT_TRUE(got.ok()) << got.status().message();
  ASSERT_EQ(got->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR((*got)[i], expected[i], 1e-5) << "element " << i;
}

// Finds the tokens that chose an expert (mask [1, kTokens]), as torch's exporters do.
void FindTokens(ModelMaker& m) {
  m.Input("x", {kTokens, kWidth});
  m.Input("mask", {2, kTokens}, onnx::TensorProto::BOOL);
  m.Floats("w", {kWidth, kOut}, Weight());
  m.Floats("zeros", {kTokens, kOut}, Numbers(kTokens * kOut));
  m.Node("NonZero", {"mask"}, {"found"});
  Scalar(m, "one", 1);
  m.Node("Gather", {"found", "one"}, {"tokens"});  // [n]
  m.Node("Gather", {"x", "tokens"}, {"rows"});
  m.Node("MatMul", {"rows", "w"}, {"products"});
}

// Each of the mask's two slots chooses different tokens: one chooses 1 and 4, the other 0.
const std::vector<bool> kMask = {false, true, false, false, true, true, false, false, false, false};
const std::vector<bool> kChosen = {true, true, false, false, true};

ir::Values Inputs(const Numbers& x) {
  return {Data(DType::kF32, {kTokens, kWidth}, x),
          Data(DType::kBool, {2, kTokens}, std::vector<uint8_t>(kMask.begin(), kMask.end()))};
}

TEST(DataSizedDimsTest, WhatIsFoundIsScatteredToWhereItWas) {
  const Numbers x = Random(kTokens * kWidth);
  for (const auto& [op, parts] : {std::pair{"ScatterND", false}, std::pair{"ScatterElements", false},
                                  std::pair{"ScatterElements", true}}) {
    ModelMaker m;
    FindTokens(m);
    m.Ints("last", {-1});
    m.Node("Unsqueeze", {"tokens", "last"}, {"places"});
    if (std::string(op) == "ScatterElements") {
      m.Node("Shape", {"products"}, {"shape"});
      if (parts) {  // a shape made of the number of rows and the known width
        m.Ints("which", {0}), m.Ints("width", {kOut});
        m.Node("Gather", {"shape", "which"}, {"count"});
        Set(m.Node("Concat", {"count", "width"}, {"joined"}), "axis", int64_t{0});
      }
      m.Node("Expand", {"places", parts ? "joined" : "shape"}, {"wide"});
      m.Node(op, {"zeros", "wide", "products"}, {"y"});
    } else {
      Set(m.Node(op, {"zeros", "places", "products"}, {"y"}), "reduction", "add");
    }
    m.Output("y");
    ExpectSame(Evaluated(m, Inputs(x)), OfChosen(x, kChosen));
  }
}

// Elements beyond the real ones may hold anything, also NaN or an invalid index.
TEST(DataSizedDimsTest, PlacesThatAreNotRealCannotHarm) {
  ModelMaker m;
  m.Input("at", {4}, onnx::TensorProto::INT64);
  m.Floats("table", {2, 1}, {3, 5});
  m.Floats("zeros", {4, 1}, {0, 0, 0, 0});
  Scalar(m, "two", 2);
  m.Node("Less", {"at", "two"}, {"inside"});
  m.Node("NonZero", {"inside"}, {"found"});
  m.Ints("first", {0});
  m.Node("Squeeze", {"found", "first"}, {"places"});
  m.Node("Gather", {"at", "places"}, {"which"});  // 7 is outside the table
  m.Node("Gather", {"table", "which"}, {"rows"});
  m.Ints("last", {-1});
  m.Node("Unsqueeze", {"places", "last"}, {"to"});
  m.Node("ScatterND", {"zeros", "to", "rows"}, {"y"});
  m.Output("y");
  ExpectSame(Evaluated(m, {Data(DType::kI64, {4}, std::vector<int64_t>{1, 7, 0, 7})}), {5, 0, 3, 0});
}

// Rows are sorted by expert. Each expert computes a range of them, and the results are concatenated.
void Groups(ModelMaker& m, int64_t rows) {
  m.Input("x", {rows, kWidth});
  m.Input("end", {}, onnx::TensorProto::INT64);
  m.Input("all", {}, onnx::TensorProto::INT64);
  m.Floats("w", {kWidth, kOut}, Weight());
  m.Floats("none", {kWidth, kOut}, Numbers(kWidth * kOut));
  Scalar(m, "zero", 0);
  Scalar(m, "one", 1);
  m.Node("Range", {"zero", "end", "one"}, {"first"});
  m.Node("Range", {"end", "all", "one"}, {"second"});
  m.Node("Gather", {"x", "first"}, {"a"});
  m.Node("Gather", {"x", "second"}, {"b"});
  m.Node("MatMul", {"a", "w"}, {"p"});
  m.Node("MatMul", {"b", "none"}, {"q"});
  Set(m.Node("Concat", {"p", "q"}, {"y"}), "axis", int64_t{0});
  m.Output("y");
}

TEST(DataSizedDimsTest, RangesOfRowsAreJoinedInOrder) {
  const Numbers x = Random(kTokens * kWidth);
  const auto run = [&](int64_t end, int64_t all) {
    ModelMaker m;
    Groups(m, kTokens);
    return Evaluated(
        m, {Data(DType::kF32, {kTokens, kWidth}, x), Data(DType::kI64, {}, std::vector<int64_t>{end}),
            Data(DType::kI64, {}, std::vector<int64_t>{all})});
  };
  ExpectSame(run(2, kTokens), OfChosen(x, {true, true, false, false, false}));
  ExpectSame(run(0, kTokens), OfChosen(x, std::vector<bool>(kTokens)));
  ExpectSame(run(kTokens, kTokens), OfChosen(x, std::vector<bool>(kTokens, true)));
  // The concatenation would have a wrong number of rows.
  for (const auto& [end, all] : {std::pair{2, 4}, std::pair{3, 2}, std::pair{-1, 5}, std::pair{2, 7}})
    EXPECT_FALSE(run(end, all).ok()) << end << ", " << all;
}

TEST(DataSizedDimsTest, WhatWouldSeeTheLengthIsRefused) {
  using Maker = void (*)(ModelMaker&);
  const std::pair<Maker, const char*> makers[] = {
      {[](ModelMaker& m) {
         m.Node("Gather", {"products", "one"}, {"y"});
       },
       "that a run may not have"},
      {[](ModelMaker& m) {
         m.Node("Add", {"products", "zeros"}, {"y"});
       },
       "made by NonZero \"NonZero_found\""},
      {[](ModelMaker& m) {
         m.Node("MatMul", {"products", "products"}, {"y"});
       },
       "made by NonZero \"NonZero_found\""},
  };
  for (const auto& [make, why] : makers) {
    ModelMaker m;
    FindTokens(m);
    make(m);
    m.Output("y");
    EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"\"", "_y\"", why}));
  }
}

// A node that reads the length gets the true one.
TEST(DataSizedDimsTest, SumsAndSoftmaxesAreOfWhatIsThere) {
  const Numbers x = Random(kTokens * kWidth), chosen = OfChosen(x, kChosen);
  Numbers sum(kOut);
  for (size_t i = 0; i < chosen.size(); ++i) sum[i % kOut] += chosen[i];
  ModelMaker m;
  FindTokens(m);
  m.Ints("axis", {0});
  Set(m.Node("Softmax", {"products"}, {"shares"}), "axis", int64_t{0});
  m.Node("Div", {"products", "shares"}, {"weighted"});
  m.Node("Mul", {"weighted", "shares"}, {"again"});
  Set(m.Node("ReduceSum", {"again", "axis"}, {"y"}), "keepdims", int64_t{0});
  m.Output("y");
  ExpectSame(Evaluated(m, Inputs(x)), sum);
}

}  // namespace
}  // namespace rondo
