// Caches of a fixed length: branches on the number of cached positions are decided in each run, and not at
// compile time for the full length.
#include <gtest/gtest.h>

#include <functional>

#include "tests/import/growing_decoder.h"

namespace rondo {
namespace {

// A number that a model computes from the number of positions, `total`, and multiplies its result by.
struct Decision {
  const char* what;
  std::function<void(Decoder&)> make;  // adds nodes that compute "factor", an i64
};

void Op(Decoder& m, const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
        int64_t to = 0) {
  onnx::NodeProto* node = m.Node(op, inputs, {output});
  if (to != 0) Set(node, "to", {to});
}

// None of these has the full length's value at every length, or grows linearly. Import must not decide any of
// them.
TEST(DecidedLengthsTest, WhatIsDecidedByTheNumberOfPositionsIsDecidedInTheRun) {
  constexpr int64_t kInt64 = onnx::TensorProto::INT64, kFloat = onnx::TensorProto::FLOAT;
  const auto compare = [](const char* op, const char* with) {
    return [=](Decoder& m) {
      Op(m, op, {"total", with}, "more");
      Op(m, "Cast", {"more"}, "factor", kInt64);
    };
  };
  const Decision decisions[] = {
      {"greater", compare("Greater", "three")},
      {"not less", compare("GreaterOrEqual", "three")},
      {"less", compare("Less", "three")},
      {"equal", compare("Equal", "three")},
      {"greater, beyond the length", compare("Greater", "eight")},
      {"anything cached",
       [](Decoder& m) {
         Op(m, "Cast", {"past"}, "some", onnx::TensorProto::BOOL);
         Op(m, "Cast", {"some"}, "factor", kInt64);
       }},
      {"of floats",
       [](Decoder& m) {
         Op(m, "Cast", {"total"}, "total_f", kFloat);
         Op(m, "Cast", {"three"}, "three_f", kFloat);
         Op(m, "Less", {"three_f", "total_f"}, "more");
         Op(m, "Cast", {"more"}, "factor", kInt64);
       }},
      {"of a shape",
       [](Decoder& m) {
         Op(m, "Size", {"present_key"}, "size");
         Op(m, "Greater", {"size", "elements_of_three"}, "more");
         Op(m, "Cast", {"more"}, "factor", kInt64);
       }},
      {"between two",
       [](Decoder& m) {
         Op(m, "Greater", {"total", "one"}, "more");
         Op(m, "Less", {"total", "five"}, "fewer");
         Op(m, "And", {"more", "fewer"}, "both");
         Op(m, "Cast", {"both"}, "factor", kInt64);
       }},
      {"chosen",
       [](Decoder& m) {
         Op(m, "Greater", {"total", "three"}, "more");
         Op(m, "Where", {"more", "total", "two"}, "factor");
       }},
      {"least",
       [](Decoder& m) {
         Op(m, "Min", {"total", "three"}, "factor");
       }},
      {"greatest",
       [](Decoder& m) {
         Op(m, "Max", {"total", "three"}, "factor");
       }},
      {"between ends",
       [](Decoder& m) {
         Op(m, "Clip", {"total_number", "start_two", "start_five"}, "factor");
       }},
      {"divided",
       [](Decoder& m) {
         Op(m, "Div", {"total", "three"}, "factor");
       }},
      {"remainder",
       [](Decoder& m) {
         Op(m, "Mod", {"total", "three"}, "factor");
       }},
      {"apart",
       [](Decoder& m) {
         Op(m, "Sub", {"total", "three"}, "signed");
         Op(m, "Abs", {"signed"}, "factor");
       }},
      {"rounded",
       [](Decoder& m) {
         Op(m, "Cast", {"total"}, "total_f", kFloat);
         Op(m, "Cast", {"three"}, "three_f", kFloat);
         Op(m, "Div", {"total_f", "three_f"}, "thirds");
         Op(m, "Ceil", {"thirds"}, "up");
         Op(m, "Cast", {"up"}, "factor", kInt64);
       }},
      {"of a table",
       [](Decoder& m) {
         Op(m, "Gather", {"table", "total"}, "factor");
       }},
      {"square",
       [](Decoder& m) {
         Op(m, "Mul", {"total", "total"}, "factor");
       }},
      {"greatest of a list",
       [](Decoder& m) {
         Set(m.Node("Concat", {"total", "three"}, {"list"}), "axis", {0});
         Set(m.Node("ReduceMax", {"list", "zero"}, {"factor"}), "keepdims", {0});
       }},
      {"last of a range",
       [](Decoder& m) {
         Op(m, "Range", {"start", "total_number", "step"}, "line");
         Op(m, "Gather", {"line", "minus"}, "factor");
       }},
      {"a table's part",
       [](Decoder& m) {
         Op(m, "Slice", {"table", "past", "total", "zero"}, "part");
         Set(m.Node("ReduceSum", {"part", "zero"}, {"factor"}), "keepdims", {0});
       }},
      {"a sum of a range",
       [](Decoder& m) {
         Op(m, "Range", {"start", "total_number", "step"}, "line");
         Set(m.Node("ReduceSum", {"line", "zero"}, {"factor"}), "keepdims", {0});
       }},
      {"a mean of a range",
       [](Decoder& m) {
         Op(m, "Range", {"start", "total_number", "step"}, "line");
         Op(m, "Cast", {"line"}, "line_f", kFloat);
         Set(m.Node("ReduceMean", {"line_f", "zero"}, {"mean"}), "keepdims", {0});
         Op(m, "Cast", {"mean"}, "factor", kInt64);
       }},
      {"where a range is greatest",
       [](Decoder& m) {
         Op(m, "Range", {"start", "total_number", "step"}, "line");
         Set(m.Node("ArgMax", {"line"}, {"factor"}), "axis", {0});
       }},
      {"a range's length",
       [](Decoder& m) {
         Op(m, "Expand", {"one", "total"}, "line");
         Op(m, "Size", {"line"}, "factor");
       }},
  };
  struct Form {
    Masks masks;
    int64_t rows;
  };
  for (const Decision& decision : decisions) {
    for (const auto& [masks, rows] :
         {Form{Masks::kRanges, 1}, Form{Masks::kRanges, 2}, Form{Masks::kGrouped, 1},
          Form{Masks::kGrouped, 2}, Form{Masks::kGroupedMask, 1}, Form{Masks::kGroupedLengths, 2}}) {
      SCOPED_TRACE(std::string(decision.what) + ", masks " + std::to_string(static_cast<int>(masks)));
      Decoder m(masks);
      m.Ints("five", {5});
      m.Ints("eight", {8});
      m.Ints("minus", {-1});
      m.Ints("elements_of_three", {3 * kHeads * kSize});
      m.Ints("table", {5, 4, 3, 2, 1, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
      m.Scalar("start_two", 2);
      m.Scalar("start_five", 5);
      decision.make(m);
      Op(m, "Cast", {"factor"}, "factor_f", kFloat);
      Op(m, "Mul", {"y", "factor_f"}, "scaled");
      m.graph()->mutable_output(0)->set_name("scaled");
      auto fixed = Fixed(m, rows);
      ASSERT_TRUE(fixed.ok()) << fixed.status().message();
      for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
    }
  }
}

// Import follows a mask of the first positions or one of the last positions, but not both at once.
TEST(DecidedLengthsTest, MasksFromBothEndsAreJoinedInTheRun) {
  for (const int64_t rows : {1, 2}) {
    Decoder m(Masks::kNone);
    m.Ints("five", {5});
    m.Node("Range", {"start", "total_number", "step"}, {"all"});
    m.Node("Less", {"all", "three"}, {"early"});
    m.Node("Sub", {"total", "five"}, {"last_ones"});
    m.Node("Greater", {"all", "last_ones"}, {"late"});
    m.Node("And", {"early", "late"}, {"both"});
    m.Floats("some", {1}, {0.5f});
    m.Floats("none", {1}, {0});
    m.Node("Where", {"both", "some", "none"}, {"bias"});
    for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
      if (node.op_type() == "Softmax") node.set_input(0, "biased");
    }
    m.Node("Add", {"scores", "bias"}, {"biased"});
    auto fixed = Fixed(m, rows);
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
  }
}

void ExpectBranches(Masks masks) {
  Decoder m(masks);
  m.Node("Greater", {"total", "three"}, {"more"});
  onnx::NodeProto* node = m.Node("If", {"more"}, {"scaled"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* branch = node->add_attribute();
    branch->set_name(name);
    branch->set_type(onnx::AttributeProto::GRAPH);
    const bool yes = std::string(name) == "then_branch";
    ModelMaker::Node(branch->mutable_g(), yes ? "Neg" : "Identity", {"y"}, {std::string("of_") + name});
    branch->mutable_g()->add_output()->set_name(std::string("of_") + name);
  }
  m.graph()->mutable_output(0)->set_name("scaled");
  auto fixed = Fixed(m, 1);
  ASSERT_TRUE(fixed.ok()) << fixed.status().message();
  for (int64_t past = 0; past + 1 <= kLength; ++past) ExpectSameRun(m, *fixed, past, 1);
}
TEST(DecidedLengthsTest, ABranchIsTakenByTheNumberOfPositionsInTheRun) {
  for (const Masks masks : {Masks::kRanges, Masks::kGrouped, Masks::kGroupedMask}) ExpectBranches(masks);
}

// With fewer positions, "the first three" are fewer too.
TEST(DecidedLengthsTest, SumsOfTheFirstPositionsAreOfThoseThatThereAre) {
  for (const bool mask : {false, true}) {
    Decoder m(mask ? Masks::kInput : Masks::kRanges);
    m.Node("Slice", {mask ? "attention_mask" : "keys", "zero", "three", mask ? "one" : "zero"}, {"first"});
    Set(m.Node("ReduceSum", {"first"}, {"sum"}), "keepdims", {0});
    Set(m.Node("Cast", {"sum"}, {"sum_f"}), "to", {onnx::TensorProto::FLOAT});
    m.Node("Mul", {"y", "sum_f"}, {"scaled"});
    m.graph()->mutable_output(0)->set_name("scaled");
    auto fixed = Fixed(m, 1);
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    for (int64_t past = 0; past + 1 <= kLength; ++past) ExpectSameRun(m, *fixed, past, 1);
  }
}

// Positions after the real ones get the padding's value.
TEST(DecidedLengthsTest, PositionsThatAreFilledUpAreFilledFromTheLastRealOneOn) {
  for (const Masks masks : {Masks::kRanges, Masks::kGrouped}) {
    Decoder m(masks);
    m.Ints("most", {20});
    m.Ints("begin", {0});
    m.Node("Range", {"start", "total_number", "step"}, {"line"});
    m.Node("Sub", {"most", "total"}, {"more"});
    Set(m.Node("Concat", {"begin", "more"}, {"pads"}), "axis", {0});
    m.Node("Pad", {"line", "pads"}, {"filled"});
    Set(m.Node("ReduceSum", {"filled"}, {"sum"}), "keepdims", {0});
    Set(m.Node("Cast", {"sum"}, {"sum_f"}), "to", {onnx::TensorProto::FLOAT});
    m.Node("Mul", {"y", "sum_f"}, {"scaled"});
    m.graph()->mutable_output(0)->set_name("scaled");
    auto fixed = Fixed(m, 1);
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    for (int64_t past = 0; past + 1 <= kLength; ++past) ExpectSameRun(m, *fixed, past, 1);
  }
}

// A table that ends in equal numbers must not be taken for a constant: it looks the same at several lengths.
TEST(DecidedLengthsTest, WhatATableShowsIsThatOfTheRun) {
  const Decision shown[] = {
      {"a part",
       [](Decoder& m) {
         Op(m, "Add", {"past", "two"}, "end");
         Op(m, "Slice", {"table", "past", "end", "zero"}, "some");
       }},
      {"the last one",
       [](Decoder& m) {
         Op(m, "Slice", {"table", "zero", "total", "zero"}, "first");
         Op(m, "Gather", {"first", "minus"}, "some");
       }},
      {"the last one, turned",
       [](Decoder& m) {
         Op(m, "Slice", {"table", "zero", "total", "zero"}, "first");
         Op(m, "Slice", {"first", "minus", "least_index", "zero", "minus"}, "turned_round");
         Op(m, "Slice", {"turned_round", "zero", "one", "zero"}, "some");
       }},
      {"split",
       [](Decoder& m) {
         Op(m, "Slice", {"table", "zero", "total", "zero"}, "first");
         Set(m.Node("Concat", {"past", "rows"}, {"sizes"}), "axis", {0});
         Set(m.Node("Split", {"first", "sizes"}, {"cached", "some"}), "axis", {0});
       }},
      {"padded in front",
       [](Decoder& m) {
         Set(m.Node("Concat", {"past", "eight"}, {"pads"}), "axis", {0});
         Op(m, "Pad", {"two_numbers", "pads"}, "longer");
         Op(m, "Slice", {"longer", "two", "five", "zero"}, "some");
       }},
      {"filled up",
       [](Decoder& m) {
         Op(m, "Slice", {"table", "zero", "total", "zero"}, "first");
         Op(m, "Sub", {"forty", "total"}, "more");
         Set(m.Node("Concat", {"zero", "more"}, {"pads"}), "axis", {0});
         Op(m, "Pad", {"first", "pads"}, "longer");
         Op(m, "Slice", {"longer", "two", "five", "zero"}, "some");
       }},
      {"joined",
       [](Decoder& m) {
         Op(m, "Slice", {"table", "zero", "past", "zero"}, "first");
         Op(m, "Expand", {"zero", "rows"}, "zeros");
         Set(m.Node("Concat", {"first", "zeros"}, {"longer"}), "axis", {0});
         Op(m, "Slice", {"longer", "zero", "one", "zero"}, "some");
       }},
  };
  for (const Decision& one : shown) {
    for (const Masks masks : {Masks::kRanges, Masks::kGrouped}) {
      for (const int64_t rows : {1, 2}) {
        SCOPED_TRACE(std::string(one.what) + ", masks " + std::to_string(static_cast<int>(masks)));
        Decoder m(masks);
        std::vector<int64_t> table = {5, 4, 3, 1};
        table.resize(40);
        m.Ints("table", table);
        m.Ints("five", {5});
        m.Ints("eight", {8});
        m.Ints("forty", {40});
        m.Ints("minus", {-1});
        m.Ints("least_index", {INT64_MIN});
        m.Ints("two_numbers", {1, 2});
        one.make(m);
        Op(m, "Add", {"some", "one"}, "more_of_it");  // import would fold it if nothing prevented that
        Set(m.Node("ReduceSum", {"more_of_it", "zero"}, {"factor"}), "keepdims", {0});
        Op(m, "Cast", {"factor"}, "factor_f", onnx::TensorProto::FLOAT);
        Op(m, "Mul", {"y", "factor_f"}, "scaled");
        m.graph()->mutable_output(0)->set_name("scaled");
        auto fixed = Fixed(m, rows);
        ASSERT_TRUE(fixed.ok()) << fixed.status().message();
        for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
      }
    }
  }
}

// In a merged decoder's branch without a past, a choice by the number of tokens read becomes a choice by the
// length of the text, which begins with these tokens.
TEST(DecidedLengthsTest, WhatBeginsCachesChoosesByTheTextsLength) {
  constexpr int64_t kLimit = 4;
  for (const bool mask : {false, true}) {
    for (const int form : {0, 1, 2}) {  // a comparison, one of doubled numbers, a square root
      for (const int64_t rows : {3, 5}) {
        ModelMaker m;
        DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "rows", "4"});
        if (mask)
          DescribePort(m.graph()->add_input(), "attention_mask", onnx::TensorProto::FLOAT,
                       {"1", "past_sequence_length + rows"});
        DescribePort(m.graph()->add_input(), "past_key", onnx::TensorProto::FLOAT,
                     {"1", "past_sequence_length", "4"});
        m.Ints("one", {1});
        m.Ints("two", {2});
        m.Ints("limit", {kLimit});
        m.Node("Shape", {"x"}, {"shape"});
        m.Node("Gather", {"shape", "one"}, {"count"});
        if (form == 2) {
          Set(m.Node("Cast", {"count"}, {"count_f"}), "to", {onnx::TensorProto::FLOAT});
          m.Node("Sqrt", {"count_f"}, {"factor"});
        } else {
          m.Node("Mul", {"count", "two"}, {"twice"});
          m.Node("Mul", {"limit", "two"}, {"limits"});
          m.Node("Greater", {form == 0 ? "count" : "twice", form == 0 ? "limit" : "limits"}, {"more"});
          m.Floats("short", {1}, {3});
          m.Floats("long", {1}, {7});
          m.Node("Where", {"more", "long", "short"}, {"factor"});
        }
        m.Node("Mul", {"x", "factor"}, {"scaled"});
        if (mask) m.Node("Unsqueeze", {"attention_mask", "two"}, {"column"});
        m.Node(mask ? "Mul" : "Identity",
               mask ? std::vector<std::string>{"scaled", "column"} : std::vector<std::string>{"scaled"},
               {"y"});
        m.Node("Identity", {"scaled"}, {"present_key"});
        m.Output("y");
        DescribePort(m.graph()->add_output(), "present_key", onnx::TensorProto::FLOAT,
                     {"1", "past_sequence_length + rows", "4"});
        FixedCaches caches;
        const auto graph = ImportWithFixedCaches(m.Make(), Rows(rows), kLength, {}, nullptr, &caches);
        ASSERT_TRUE(graph.ok()) << graph.status().message();
        ASSERT_EQ(graph->inputs.back().name, "text_length") << "form " << form << ", mask " << mask;
        for (int64_t text = 0; text <= kLength; ++text) {  // 0: as long as the tokens read
          ir::Values inputs = {Data(Shape({1, rows, 4}), Numbers(static_cast<size_t>(rows * 4), 1))};
          if (mask) inputs.push_back(Data(Shape({1, kLength}), Numbers(kLength, 1)));
          inputs.push_back(Data(Shape({1, kLength, 4}), Numbers(kLength * 4, 5)));
          inputs.push_back(Data(Shape({1}), std::vector<int64_t>{text}));
          const auto got = ir::EvaluateGraph(*graph, inputs);
          ASSERT_TRUE(got.ok()) << got.status().message();
          const int64_t length = text == 0 ? rows : text;
          const float want = form == 2 ? std::sqrt(static_cast<float>(length)) : length > kLimit ? 7 : 3;
          float y, last;
          std::memcpy(&y, (*got)[0]->bytes.data(), 4);
          EXPECT_NEAR(y, want, 1e-6) << "form " << form << ", " << rows << " of " << text;
          std::memcpy(&last, (*got)[1]->bytes.data() + 4 * 4 * (kLength - 1), 4);
          EXPECT_EQ(last, 5) << "behind the first rows";
        }
      }
    }
  }
}

}  // namespace
}  // namespace rondo
