// The table "Special values" of compiler/passes/README.md, with an entry for each rewrite. Results of
// compiled plans for +-0, +-inf, NaN, subnormals and the largest floats are compared with the model's
// operators, computed here one by one.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/e2e/branch_models.h"

namespace rondo {
namespace {

using Limits = std::numeric_limits<float>;
constexpr float kInf = Limits::infinity(), kNan = Limits::quiet_NaN();

const std::vector<float>& Values() {
  static const std::vector<float> values = [] {
    std::vector<float> all;
    for (const float x : {0.0f,          Limits::denorm_min(),
                          3e-42f,        1e-39f,
                          Limits::min(), 1e-30f,
                          1e-20f,        0.25f,
                          0.5f,          1.0f,
                          1.5f,          2.0f,
                          3.0f,          7.0f,
                          100.0f,        1e10f,
                          1e20f,         3e30f,
                          Limits::max(), kInf})
      for (const float sign : {1.0f, -1.0f}) all.push_back(sign * x);
    all.push_back(kNan);
    return all;
  }();
  return values;
}

// What a rewrite may change.
enum May { kNothing = 0, kZeroSign = 1, kSubnormals = 2, kNanStays = 4 };

struct Entry {
  const char* name;
  std::function<void(ModelMaker&)> nodes;  // add nodes that compute "y" from "x" [n]
  std::function<float(float)> value;       // what the nodes compute
  int may = kNothing;
};
std::ostream& operator<<(std::ostream& out, const Entry& e) { return out << e.name; }

using Nodes = std::function<void(ModelMaker&)>;

Nodes Unary(const char* op) {
  return [=](ModelMaker& m) { m.Node(op, {"x"}, {"y"}); };
}
Nodes Chain(const char* first, const char* second) {
  return [=](ModelMaker& m) {
    m.Node(first, {"x"}, {"between"});
    m.Node(second, {"between"}, {"y"});
  };
}
// The node op(x, number), or with `before` op(number, x).
Nodes With(const char* op, float number, bool before = false) {
  return [=](ModelMaker& m) {
    m.Floats("c", {}, {number});
    m.Node(op, before ? std::vector<std::string>{"c", "x"} : std::vector<std::string>{"x", "c"}, {"y"});
  };
}
Nodes Twice(const char* op, float first, float second) {
  return [=](ModelMaker& m) {
    m.Floats("c", {}, {first});
    m.Floats("d", {}, {second});
    m.Node(op, {"x", "c"}, {"between"});
    m.Node(op, {"between", "d"}, {"y"});
  };
}
// (x * x + 1) ^ exponent, as in norms.
Nodes PowerOfSquares(float exponent) {
  return [=](ModelMaker& m) {
    m.Floats("one", {}, {1});
    m.Floats("e", {}, {exponent});
    m.Node("Mul", {"x", "x"}, {"squares"});
    m.Node("Add", {"squares", "one"}, {"sum"});
    m.Node("Pow", {"sum", "e"}, {"y"});
  };
}
Nodes Clip(float low, float high, float added = 0) {
  return [=](ModelMaker& m) {
    m.Floats("low", {}, {low});
    m.Floats("high", {}, {high});
    m.Floats("added", {}, {added});
    if (added != 0) m.Node("Add", {"x", "added"}, {"sum"});
    m.Node("Clip", {added != 0 ? "sum" : "x", "low", "high"}, {"y"});
  };
}
// An operator over an axis of one element.
Nodes OverOne(const char* op) {
  return [=](ModelMaker& m) {
    m.Ints("column", {static_cast<int64_t>(Values().size()), 1});
    m.Ints("axis", {1});
    m.Node("Reshape", {"x", "column"}, {"rows"});
    SetInt(m.Node(op, {"rows", "axis"}, {"y"}), "keepdims", 0);
  };
}
Nodes CastBetween(int type) {
  return [=](ModelMaker& m) {
    SetInt(m.Node("Cast", {"x"}, {"between"}), "to", type);
    SetInt(m.Node("Cast", {"between"}, {"y"}), "to", onnx::TensorProto::FLOAT);
  };
}

// NaN if either is NaN, as in numpy.
float Greatest(float a, float b) { return a != a || b != b ? kNan : std::max(a, b); }
float Least(float a, float b) { return a != a || b != b ? kNan : std::min(a, b); }

const Entry kEntries[] = {
    {"Pow0", With("Pow", 0), [](float) { return 1.0f; }},
    {"Pow1", With("Pow", 1), [](float x) { return x; }},
    {"Pow2", With("Pow", 2), [](float x) { return std::pow(x, 2.0f); }},
    {"Pow3", With("Pow", 3), [](float x) { return std::pow(x, 3.0f); }, kSubnormals},
    {"PowMinus1", With("Pow", -1), [](float x) { return std::pow(x, -1.0f); }},
    {"PowHalf", With("Pow", 0.5f), [](float x) { return std::pow(x, 0.5f); }},
    {"PowMinusHalf", With("Pow", -0.5f), [](float x) { return std::pow(x, -0.5f); }},
    {"PowHalfOfSquares", PowerOfSquares(0.5f), [](float x) { return std::pow(x * x + 1, 0.5f); }},
    {"PowMinusHalfOfSquares", PowerOfSquares(-0.5f), [](float x) { return std::pow(x * x + 1, -0.5f); }},
    {"Add0", With("Add", 0.0f), [](float x) { return x + 0.0f; }},
    {"AddMinus0", With("Add", -0.0f), [](float x) { return x + -0.0f; }},
    {"AddTo0", With("Add", 0.0f, true), [](float x) { return 0.0f + x; }},
    {"Sub0", With("Sub", 0.0f), [](float x) { return x - 0.0f; }},
    {"SubMinus0", With("Sub", -0.0f), [](float x) { return x - -0.0f; }},
    {"SubFrom0", With("Sub", 0.0f, true), [](float x) { return 0.0f - x; }},
    {"Mul1", With("Mul", 1), [](float x) { return x; }},
    {"Mul0", With("Mul", 0), [](float x) { return x * 0.0f; }},
    {"MulMinus1", With("Mul", -1), [](float x) { return -x; }},
    {"MulInf", With("Mul", kInf), [](float x) { return x * kInf; }},
    {"MulTwiceLarge", Twice("Mul", 1e30f, 1e30f), [](float x) { return x * 1e30f * 1e30f; }},
    {"MulTwiceSmall", Twice("Mul", 1e-30f, 1e-30f), [](float x) { return x * 1e-30f * 1e-30f; }, kSubnormals},
    {"MulLargeSmall", Twice("Mul", 1e30f, 1e-30f), [](float x) { return x * 1e30f * 1e-30f; }, kSubnormals},
    {"MulSmallLarge", Twice("Mul", 1e-30f, 1e30f), [](float x) { return x * 1e-30f * 1e30f; }, kSubnormals},
    {"MulTwiceHalf", Twice("Mul", 0.5f, 0.25f), [](float x) { return x * 0.5f * 0.25f; }, kSubnormals},
    {"MulTwiceMore", Twice("Mul", 3, 5), [](float x) { return x * 3.0f * 5.0f; }},
    {"MulTwice0", Twice("Mul", 0, 2), [](float x) { return x * 0.0f * 2.0f; }},
    {"AddTwice", Twice("Add", 1e30f, -1e30f), [](float x) { return x + 1e30f + -1e30f; }},
    {"Div1", With("Div", 1), [](float x) { return x; }},
    {"Div3", With("Div", 3), [](float x) { return x / 3.0f; }},
    {"Div0", With("Div", 0), [](float x) { return x / 0.0f; }},
    {"DivSubnormal", With("Div", 1e-40f), [](float x) { return x / 1e-40f; }},
    {"DivLargest", With("Div", Limits::max()), [](float x) { return x / Limits::max(); }},
    {"OneByX", With("Div", 1, true), [](float x) { return 1.0f / x; }},
    {"OneByRoot",
     [](ModelMaker& m) {
       m.Floats("one", {}, {1});
       m.Node("Sqrt", {"x"}, {"root"});
       m.Node("Div", {"one", "root"}, {"y"});
     },
     [](float x) { return 1.0f / std::sqrt(x); }},
    {"ReciprocalOfRoot", Chain("Sqrt", "Reciprocal"), [](float x) { return 1.0f / std::sqrt(x); }},
    {"XMinusX",
     [](ModelMaker& m) {
       m.Node("Sub", {"x", "x"}, {"y"});
     },
     [](float x) { return x - x; }},
    {"XByX",
     [](ModelMaker& m) {
       m.Node("Div", {"x", "x"}, {"y"});
     },
     [](float x) { return x / x; }},
    {"NegNeg", Chain("Neg", "Neg"), [](float x) { return x; }},
    {"LogOfExp", Chain("Exp", "Log"), [](float x) { return std::log(std::exp(x)); }},
    {"ExpOfLog", Chain("Log", "Exp"), [](float x) { return std::exp(std::log(x)); }},
    {"RootOfSquare",
     [](ModelMaker& m) {
       m.Node("Mul", {"x", "x"}, {"square"});
       m.Node("Sqrt", {"square"}, {"y"});
     },
     [](float x) { return std::sqrt(x * x); }},
    {"CastToF64AndBack", CastBetween(onnx::TensorProto::DOUBLE), [](float x) { return x; }},
    {"SumOfOne", OverOne("ReduceSum"), [](float x) { return x; }, kZeroSign},
    {"MaxOfOne", OverOne("ReduceMax"), [](float x) { return x; }},
    {"MinOfOne", OverOne("ReduceMin"), [](float x) { return x; }},
    {"MeanOfOne", OverOne("ReduceMean"), [](float x) { return x; }, kZeroSign},
    {"Clip", Clip(-3, 6), [](float x) { return Least(Greatest(x, -3), 6); }},
    {"ClipTurned", Clip(6, -3), [](float x) { return Least(Greatest(x, 6), -3); }},
    {"ClipFromNan", Clip(kNan, 6), [](float) { return kNan; }},
    {"ClipToNan", Clip(-3, kNan), [](float) { return kNan; }},
    {"ClipSum", Clip(-3, 6, 1), [](float x) { return Least(Greatest(x + 1, -3), 6); }},
    {"ClipSumFromNan", Clip(kNan, 6, 1), [](float) { return kNan; }},
    {"ClipSumToNan", Clip(-3, kNan, 1), [](float) { return kNan; }},
    {"ClipToInf", Clip(-kInf, kInf), [](float x) { return x; }},
    {"MaxNan", With("Max", kNan), [](float) { return kNan; }},
    {"MinNan", With("Min", kNan, true), [](float) { return kNan; }},
    {"MaxMinNan",
     [](ModelMaker& m) {
       m.Floats("zero", {}, {0});
       m.Floats("nan", {}, {kNan});
       m.Node("Max", {"x", "zero"}, {"least"});
       m.Node("Min", {"least", "nan"}, {"y"});
     },
     [](float) { return kNan; }},
    {"Relu", Unary("Relu"), [](float x) { return Greatest(x, 0); }, kZeroSign},
    {"Sigmoid", Unary("Sigmoid"), [](float x) { return 1 / (1 + std::exp(-x)); }, kSubnormals},
    {"Softplus", Unary("Softplus"), [](float x) { return x > 50 ? x : std::log1p(std::exp(x)); },
     kSubnormals},
    {"Tanh", Unary("Tanh"), [](float x) { return std::tanh(x); }},
    {"Elu", Unary("Elu"), [](float x) { return x < 0 ? std::expm1(x) : x; }},
    {"LeakyRelu", Unary("LeakyRelu"), [](float x) { return x < 0 ? 0.01f * x : x; }, kSubnormals},
    {"SoftmaxOfOne",
     [](ModelMaker& m) {
       m.Ints("column", {static_cast<int64_t>(Values().size()), 1});
       m.Ints("flat", {static_cast<int64_t>(Values().size())});
       m.Node("Reshape", {"x", "column"}, {"rows"});
       m.Node("Softmax", {"rows"}, {"weights"});
       m.Node("Reshape", {"weights", "flat"}, {"y"});
     },
     [](float x) { return std::exp(x - x); }},
    {"PoolOfOne",
     [](ModelMaker& m) {
       m.Ints("image", {1, 1, static_cast<int64_t>(Values().size())});
       m.Ints("flat", {static_cast<int64_t>(Values().size())});
       m.Node("Reshape", {"x", "image"}, {"wide"});
       onnx::NodeProto* pool = m.Node("MaxPool", {"wide"}, {"pooled"});
       onnx::AttributeProto* kernel = pool->add_attribute();
       kernel->set_name("kernel_shape");
       kernel->set_type(onnx::AttributeProto::INTS);
       kernel->add_ints(1);
       m.Node("Reshape", {"pooled", "flat"}, {"y"});
     },
     [](float x) { return x; }},
    {"Quantised",
     [](ModelMaker& m) {
       m.Floats("scale", {}, {0.5f});
       onnx::TensorProto* zero = m.graph()->add_initializer();
       zero->set_name("zero");
       zero->set_data_type(onnx::TensorProto::UINT8);
       zero->add_int32_data(10);
       m.Node("QuantizeLinear", {"x", "scale", "zero"}, {"codes"});
       m.Node("DequantizeLinear", {"codes", "scale", "zero"}, {"y"});
     },
     [](float x) {
       const float code = x != x ? 0 : std::min(std::max(std::nearbyint(x / 0.5f) + 10, 0.0f), 255.0f);
       return (code - 10) * 0.5f;
     },
     kNanStays},
    {"WhereOfOne",
     [](ModelMaker& m) {
       m.Node("Where", {"yes", "x", "x"}, {"y"});
       m.Bool("yes", true);
     },
     [](float x) { return x; }},
};

std::string Difference(float got, float want, int may) {
  const std::string text = std::to_string(got) + ", not " + std::to_string(want);
  if (got != got && (may & kNanStays) != 0) return "";
  if (got != got || want != want) return (got != got) == (want != want) ? "" : text;
  if (std::isinf(got) || std::isinf(want)) return got == want ? "" : text;
  if ((may & kSubnormals) != 0 && std::abs(want) < 2 * Limits::min() && std::abs(got) < 2 * Limits::min())
    return "";
  if (want == 0)
    return got == 0 && ((may & kZeroSign) != 0 || std::signbit(got) == std::signbit(want))
               ? ""
               : text + " (of signs of 0)";
  return std::abs(got - want) <= 2e-5f * std::abs(want) + Limits::denorm_min() ? "" : text;
}

class SpecialValues : public testing::TestWithParam<Entry> {};

TEST_P(SpecialValues, AreWhatTheOperatorsSay) {
  ModelMaker m(18);
  m.Input("x", {static_cast<int64_t>(Values().size())});
  GetParam().nodes(m);
  m.Output("y");
  const Ran ran = RunWith(*Live(m), {{"x", {Values().begin(), Values().end()}}});
  ASSERT_TRUE(ran.status.ok()) << ran.status.message();
  ASSERT_EQ(ran.y.size(), Values().size());
  for (size_t i = 0; i < ran.y.size(); ++i) {
    EXPECT_EQ(Difference(ran.y[i], GetParam().value(Values()[i]), GetParam().may), "")
        << "of " << Values()[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, SpecialValues, testing::ValuesIn(kEntries),
                         [](const auto& info) { return std::string(info.param.name); });

// ------------------------------------------------------------------ where ONNX leaves open what NaN does

std::vector<float> OfRow(const std::vector<float>& row, const std::function<void(ModelMaker&)>& nodes) {
  ModelMaker m(18);
  m.Input("x", {1, static_cast<int64_t>(row.size())});
  nodes(m);
  m.Output("y");
  const Ran ran = RunWith(*Live(m), {{"x", {row.begin(), row.end()}}});
  EXPECT_TRUE(ran.status.ok()) << ran.status.message();
  return ran.y;
}

// An operator that returns indices, cast to floats.
std::function<void(ModelMaker&)> Places(const char* op) {
  return [=](ModelMaker& m) {
    SetInt(m.Node(op, {"x"}, {"place"}), "axis", 1);
    SetInt(m.Node("Cast", {"place"}, {"y"}), "to", onnx::TensorProto::FLOAT);
  };
}

TEST(NanOrder, ArgMaxAndArgMinGiveTheFirstNan) {
  for (const char* op : {"ArgMax", "ArgMin"}) {
    EXPECT_EQ(OfRow({1, kInf, kNan, -kInf, kNan}, Places(op)), std::vector<float>{2}) << op;
    EXPECT_EQ(OfRow({kNan, 2, 3}, Places(op)), std::vector<float>{0}) << op;
  }
}

TEST(NanOrder, ExtremesOfARowWithNanAreNan) {
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    for (const size_t at : {0, 3, 39}) {
      std::vector<float> row(40, 1);
      row[at] = kNan;
      const std::vector<float> y = OfRow(row, [=](ModelMaker& m) {
        m.Ints("axis", {1});
        m.Node(op, {"x", "axis"}, {"y"});
      });
      EXPECT_TRUE(std::isnan(y[0])) << op << " " << at;
    }
  }
}

// In TopK, NaN counts as +inf.
TEST(NanOrder, TopKTakesNanForInfinity) {
  for (const bool largest : {true, false}) {
    for (const int64_t k : {1, 2, 4}) {
      const auto first = [&](const char* which) {
        return OfRow({5, kNan, kInf, -2}, [&](ModelMaker& m) {
          m.Ints("k", {k});
          SetInt(m.Node("TopK", {"x", "k"}, {"values", "places"}), "largest", largest ? 1 : 0);
          SetInt(m.Node("Cast", {which}, {"y"}), "to", onnx::TensorProto::FLOAT);
        });
      };
      const std::vector<float> order =
          largest ? std::vector<float>{1, 2, 0, 3} : std::vector<float>{3, 0, 1, 2};
      const std::vector<float> places = first("places"), values = first("values");
      for (size_t i = 0; i < places.size(); ++i) {
        EXPECT_EQ(places[i], order[i]) << largest << " " << k << " " << i;
        EXPECT_EQ(std::isnan(values[i]), order[i] == 1);
      }
    }
  }
}

// Casts of a float that an integer type cannot hold: NaN gives 0, others saturate at the limits of 64 bits
// and wrap.
TEST(NanOrder, CastsToIntegersTakeNanFor0AndWrap) {
  const std::vector<float> row = {kNan, kInf, -kInf, 300, -1, 3e9f, -1.75f};
  const auto cast = [&](int type) {
    return OfRow(row, [=](ModelMaker& m) {
      SetInt(m.Node("Cast", {"x"}, {"whole"}), "to", type);
      SetInt(m.Node("Cast", {"whole"}, {"y"}), "to", onnx::TensorProto::FLOAT);
    });
  };
  EXPECT_EQ(cast(onnx::TensorProto::INT64),
            (std::vector<float>{0, 9223372036854775808.0f, -9223372036854775808.0f, 300, -1, 3e9f, -1}));
  EXPECT_EQ(cast(onnx::TensorProto::INT32), (std::vector<float>{0, -1, 0, 300, -1, -1294967296.0f, -1}));
  EXPECT_EQ(cast(onnx::TensorProto::UINT8), (std::vector<float>{0, 255, 0, 44, 255, 0, 255}));
  EXPECT_EQ(cast(onnx::TensorProto::INT8), (std::vector<float>{0, -1, 0, 44, -1, 0, -1}));
  EXPECT_EQ(cast(onnx::TensorProto::BOOL), (std::vector<float>{1, 1, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace rondo
