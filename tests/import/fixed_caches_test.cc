// Caches of a fixed length: what comes of a model whose caches grow means the same at every number of cached
// positions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "compiler/import/dim_expression.h"
#include "compiler/import/import.h"
#include "compiler/ir/evaluate.h"
#include "compiler/passes/passes.h"
#include "tests/import/growing_decoder.h"
#include "tests/import/model_maker.h"
#include "tests/ir/data.h"

namespace rondo {
namespace {

TEST(FixedCachesTest, MeanWhatGrowingOnesDoAtEveryNumberOfPositions) {
  for (const Masks masks : {Masks::kNone, Masks::kTriangle, Masks::kRanges, Masks::kInput, Masks::kWindow,
                            Masks::kCut, Masks::kGathered, Masks::kFromEnd, Masks::kSink}) {
    for (const int64_t rows : {1, 2}) {
      if (masks == Masks::kInput && rows == 2) continue;
      Decoder m(masks);
      auto fixed = Fixed(m, rows);
      ASSERT_TRUE(fixed.ok()) << fixed.status().message();
      for (int64_t past = 0; past + rows <= kLength; ++past) {
        SCOPED_TRACE("masks " + std::to_string(static_cast<int>(masks)));
        ExpectSameRun(m, *fixed, past, rows);
      }
    }
  }
}

TEST(FixedCachesTest, MayBeAsLongAsTheModelsTables) {
  for (const Masks masks : {Masks::kTriangle, Masks::kFromEnd}) {
    for (const int64_t rows : {1, 2}) {
      Decoder m(masks, true, kLength);
      auto fixed = Fixed(m, rows);
      ASSERT_TRUE(fixed.ok()) << fixed.status().message();
      for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
    }
  }
}

// As transformers' exporter does, to give zeros where nothing is kept. In another order it would not end with
// the real positions.
TEST(FixedCachesTest, AMaskThatIsReadInOrderMayBeCounted) {
  for (const bool in_order : {true, false}) {
    Decoder m(Masks::kInput);
    m.Node("Sub", {"total", "keys"}, {"from_end"});
    m.Node("Unsqueeze", {in_order ? "keys" : "from_end", "one"}, {"key"});
    m.Node("Mul", {"key", "zero"}, {"text"});
    Set(m.Node("Concat", {"text", "key"}, {"where"}), "axis", {1});
    m.Ints("pads", {0, 0, 0, 1});
    m.Node("Pad", {"attention_mask", "pads"}, {"longer"});
    m.Node("GatherND", {in_order ? "attention_mask" : "longer", "where"}, {"kept"});
    Set(m.Node("ReduceSum", {"kept", "zero"}, {"count"}), "keepdims", {0});
    Set(m.Node("Cast", {"count"}, {"times"}), "to", {onnx::TensorProto::FLOAT});
    m.Node("Mul", {"y", "times"}, {"scaled"});
    m.graph()->mutable_output(0)->set_name("scaled");
    auto fixed = Fixed(m, 1);
    ASSERT_EQ(fixed.ok(), in_order) << fixed.status().message();
    for (int64_t past = 0; in_order && past + 1 <= kLength; ++past) ExpectSameRun(m, *fixed, past, 1);
  }
}

// As of latent attention.
TEST(FixedCachesTest, WhatIsCachedMayBeProjectedWhereItIsRead) {
  for (const int64_t rows : {1, 2}) {
    Decoder m(Masks::kRanges, true, 32, true);
    auto fixed = Fixed(m, rows);
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
  }
}

TEST(FixedCachesTest, AMaskSaysHowManyPositionsAreCachedAndElseAnInputDoes) {
  const auto has_count = [](const ir::Graph& graph) {
    return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                       [](const ir::GraphInput& input) { return input.name == "past_sequence_length"; });
  };
  Decoder masked(Masks::kInput), plain(Masks::kRanges);
  EXPECT_FALSE(has_count(*Fixed(masked, 1)));
  EXPECT_TRUE(has_count(*Fixed(plain, 1)));
}

// As the branch of a decoder that has no past.
TEST(FixedCachesTest, ACacheThatIsNotReadIsBegunByTheRun) {
  ModelMaker m;
  const std::string size = std::to_string(kSize);
  Port(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "1", "rows", size});
  Port(m.graph()->add_input(), "past_key", onnx::TensorProto::FLOAT,
       {"1", "1", "past_sequence_length", size});
  m.Node("Neg", {"x"}, {"present_key"});
  Port(m.graph()->add_output(), "present_key", onnx::TensorProto::FLOAT,
       {"1", "1", "past_sequence_length + rows", size});
  FixedCaches caches;
  auto graph = ImportWithFixedCaches(m.Make(), Rows(2), kLength, {}, nullptr, &caches);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_EQ(graph->inputs.size(), 2u) << "nobody need say how many positions are cached";
  const Numbers x = Random(2 * kSize, 5);
  const auto got = ir::EvaluateGraph(
      *graph, {Data(Shape({1, 1, 2, kSize}), x),
               Data(Shape({1, 1, kLength, kSize}), Numbers(static_cast<size_t>(kLength * kSize), 7.0f))});
  ASSERT_TRUE(got.ok()) << got.status().message();
  for (size_t i = 0; i < static_cast<size_t>(kLength * kSize); ++i) {
    float value;
    std::memcpy(&value, (*got)[0]->bytes.data() + 4 * i, 4);
    EXPECT_EQ(value, i < x.size() ? -x[i] : 7.0f) << "element " << i;
  }
}

// Builders leave it open: it is what the product before gives, over the heads that share it.
void ExpectSizeOfHead(bool quantised) {
  ModelMaker m;
  Port(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "rows", "8"});
  for (const char* name : {"past_key", "past_value"})
    Port(m.graph()->add_input(), name, onnx::TensorProto::FLOAT,
         {"1", "1", "past_sequence_length", "kv_cache_dim"});
  m.Input("last", {1}, onnx::TensorProto::INT32);
  m.Input("total", {}, onnx::TensorProto::INT32);
  if (quantised) {  // and turned round
    onnx::TensorProto* numbers = m.graph()->add_initializer();
    numbers->set_name("numbers");
    numbers->set_data_type(onnx::TensorProto::INT8);
    for (int64_t d : {64, 8}) numbers->add_dims(d);
    numbers->set_raw_data(std::string(64 * 8, '\3'));
    m.Floats("scale", {}, {0.5f});
    m.Node("DequantizeLinear", {"numbers", "scale"}, {"turned"});
    m.Node("Transpose", {"turned"}, {"weight"});
  } else {
    m.Floats("weight", {8, 64}, Random(8 * 64, 1));
  }
  m.Node("MatMul", {"x", "weight"}, {"qkv"});
  onnx::NodeProto* node =
      m.Node("GroupQueryAttention", {"qkv", "", "", "past_key", "past_value", "last", "total"},
             {"y", "present_key", "present_value"});
  node->set_domain("com.microsoft");
  Set(node, "num_heads", {2});
  Set(node, "kv_num_heads", {1});
  m.Output("y");
  for (const char* name : {"present_key", "present_value"})
    Port(m.graph()->add_output(), name, onnx::TensorProto::FLOAT,
         {"1", "1", "total_sequence_length", "kv_cache_dim"});
  FixedCaches caches;
  auto graph = ImportWithFixedCaches(m.Make(), Rows(1), kLength, {}, nullptr, &caches);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (size_t i : {size_t{1}, size_t{2}})
    EXPECT_EQ(graph->node(graph->inputs[i].node).shape, Shape({1, 1, kLength, 16})) << graph->inputs[i].name;
}
TEST(FixedCachesTest, TheSizeOfAHeadFollowsFromTheProductBefore) {
  ExpectSizeOfHead(false);
  ExpectSizeOfHead(true);
}

// As ONNX Runtime's builder writes angles for short and for long texts: the shape of the mask decides.
// `table` 0 and 1: always those for short ones, and for long ones; 2: as the builder does, for more than 3
// positions.
struct LongAngles : ModelMaker {
  explicit LongAngles(int table) {
    Port(graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "rows", "64"});
    Port(graph()->add_input(), "mask", onnx::TensorProto::INT64, {"1", "total_sequence_length"});
    for (const char* name : {"past_key", "past_value"})
      Port(graph()->add_input(), name, onnx::TensorProto::FLOAT, {"1", "1", "past_sequence_length", "16"});
    for (const char* name : {"one", "limit"}) {
      onnx::TensorProto* t = graph()->add_initializer();
      t->set_name(name);
      t->set_data_type(onnx::TensorProto::INT64);
      t->add_int64_data(name[0] == 'o' ? 1 : 3);
    }
    Ints("axis", {1});
    Set(Node("ReduceSum", {"mask", "axis"}, {"count"}), "keepdims", {0});
    Node("Sub", {"count", "one"}, {"before"});
    Set(Node("Cast", {"before"}, {"last"}), "to", {onnx::TensorProto::INT32});
    Node("Shape", {"mask"}, {"mask_shape"});
    Node("Gather", {"mask_shape", "one"}, {"total_long"});
    Set(Node("Cast", {"total_long"}, {"total"}), "to", {onnx::TensorProto::INT32});
    if (table < 2) {
      for (int part : {0, 1}) *graph()->add_initializer() = Table(part == 0 ? "cosine" : "sine", table, part);
    } else {
      Node("Greater", {"total_long", "limit"}, {"long"});
      onnx::NodeProto* choice = Node("If", {"long"}, {"cosine", "sine"});
      for (int branch : {0, 1}) {
        onnx::AttributeProto* attribute = choice->add_attribute();
        attribute->set_name(branch == 1 ? "then_branch" : "else_branch");
        attribute->set_type(onnx::AttributeProto::GRAPH);
        for (int part : {0, 1}) {
          const std::string name = "table" + std::to_string(branch) + std::to_string(part);
          *attribute->mutable_g()->add_initializer() = Table(name, branch, part);
          attribute->mutable_g()->add_output()->set_name(name);
        }
      }
    }
    onnx::NodeProto* node = Node("GroupQueryAttention",
                                 {"x", "", "", "past_key", "past_value", "last", "total", "cosine", "sine"},
                                 {"y", "present_key", "present_value"});
    node->set_domain("com.microsoft");
    Set(node, "num_heads", {2});
    Set(node, "kv_num_heads", {1});
    Set(node, "do_rotary", {1});
    Output("y");
    for (const char* name : {"present_key", "present_value"})
      Port(graph()->add_output(), name, onnx::TensorProto::FLOAT, {"1", "1", "total_sequence_length", "16"});
  }

  // [3 or 7 positions, 8].
  static onnx::TensorProto Table(const std::string& name, int which, int part) {
    onnx::TensorProto t;
    t.set_name(name);
    t.set_data_type(onnx::TensorProto::FLOAT);
    t.add_dims(which == 0 ? 3 : kLength);
    t.add_dims(8);
    for (float x : Random(static_cast<size_t>(t.dims(0) * 8), static_cast<uint32_t>(10 * which + part)))
      t.add_float_data(x);
    return t;
  }

  // y of a run of one row when there are so many positions with it.
  Result<DataPointer> Run(int64_t positions) {
    FixedCaches caches;
    RONDO_ASSIGN_OR_RETURN(ir::Graph graph,
                           ImportWithFixedCaches(Make(), Rows(1), kLength, {}, nullptr, &caches));
    std::vector<int64_t> mask(kLength);
    std::fill(mask.begin(), mask.begin() + positions, 1);
    const Shape cache = {1, 1, kLength, 16};
    RONDO_ASSIGN_OR_RETURN(
        ir::Values out, ir::EvaluateGraph(graph, {Data({1, 1, 64}, Random(64, 1)), Data({1, kLength}, mask),
                                                  Data(cache, Random(kLength * 16, 2)),
                                                  Data(cache, Random(kLength * 16, 3))}));
    return out[0];
  }
};

TEST(FixedCachesTest, WhatIsChosenByTheNumberOfPositionsIsChosenInTheRun) {
  for (const int64_t positions : {2, 3, 4, 7}) {
    LongAngles chosen(2), expected(positions > 3 ? 1 : 0);
    const auto got = chosen.Run(positions), want = expected.Run(positions);
    ASSERT_TRUE(got.ok()) << got.status().message();
    ASSERT_TRUE(want.ok()) << want.status().message();
    EXPECT_EQ(std::memcmp((*got)->bytes.data(), (*want)->bytes.data(), (*got)->bytes.size()), 0) << positions;
  }
}

// Where an operator holds the caches, as well: of the mask's length, of a cache's, of what came of it.
TEST(FixedCachesTest, WhatIsComputedFromTheNumberOfPositionsIsComputedInTheRun) {
  struct Case {
    const char* what;
    std::vector<std::vector<std::string>> nodes;  // operator, inputs, output
    std::function<int64_t(int64_t)> factor;       // of the number of positions
  };
  const Case cases[] = {
      {"the number", {{"Identity", "total_long", "factor"}}, [](int64_t n) { return n; }},
      {"cached ones",
       {{"Shape", "past_key", "shape"}, {"Gather", "shape", "second", "factor"}},
       [](int64_t n) { return n - 1; }},
      {"of what comes out",
       {{"Shape", "present_key", "shape"}, {"Gather", "shape", "second", "factor"}},
       [](int64_t n) { return n; }},
      {"of a mask of another type",
       {{"Cast", "mask", "mask_i32"}, {"Size", "mask_i32", "factor"}},
       [](int64_t n) { return n; }},
      {"least",
       {{"Min", "total_long", "limit", "factor"}},
       [](int64_t n) { return std::min<int64_t>(n, 3); }},
      {"divided", {{"Div", "total_long", "limit", "factor"}}, [](int64_t n) { return n / 3; }},
      {"remainder", {{"Mod", "total_long", "limit", "factor"}}, [](int64_t n) { return n % 3; }},
      {"chosen",
       {{"Less", "total_long", "limit", "few"}, {"Where", "few", "total_long", "one", "factor"}},
       [](int64_t n) { return n < 3 ? n : 1; }},
      {"of a table", {{"Gather", "table", "total_long", "factor"}}, [](int64_t n) { return n * n; }},
      {"greatest of a list",
       {{"Unsqueeze", "total_long", "first", "list_of_one"},
        {"Concat", "list_of_one", "axis", "list"},
        {"ReduceMax", "list", "factor"}},
       [](int64_t n) { return n; }},
  };
  for (const Case& one : cases) {
    for (const int64_t positions : {1, 2, 3, 4, 7}) {
      SCOPED_TRACE(one.what);
      LongAngles scaled(1), plain(1);
      scaled.Ints("first", {0});
      scaled.Ints("table", {0, 1, 4, 9, 16, 25, 36, 49});
      onnx::TensorProto* second = scaled.graph()->add_initializer();
      second->set_name("second");
      second->set_data_type(onnx::TensorProto::INT64);
      second->add_int64_data(2);
      for (const std::vector<std::string>& words : one.nodes) {
        onnx::NodeProto* node = scaled.Node(words[0], {words.begin() + 1, words.end() - 1}, {words.back()});
        if (words[0] == "Cast") Set(node, "to", {onnx::TensorProto::INT32});
        if (words[0] == "Concat") Set(node, "axis", {0});
        if (words[0] == "ReduceMax") Set(node, "keepdims", {0});
      }
      Set(scaled.Node("Cast", {"factor"}, {"factor_f"}), "to", {onnx::TensorProto::FLOAT});
      scaled.Node("Mul", {"y", "factor_f"}, {"scaled"});
      scaled.graph()->mutable_output(0)->set_name("scaled");
      const auto got = scaled.Run(positions), want = plain.Run(positions);
      ASSERT_TRUE(got.ok()) << got.status().message();
      ASSERT_TRUE(want.ok()) << want.status().message();
      for (int64_t i = 0; i < (*want)->shape.elements(); ++i) {
        float x, y;
        std::memcpy(&x, (*got)->bytes.data() + 4 * i, 4);
        std::memcpy(&y, (*want)->bytes.data() + 4 * i, 4);
        ASSERT_EQ(x, y * static_cast<float>(one.factor(positions))) << i << " with " << positions;
      }
    }
  }
}

// A number for each position has numbers for positions that there are not, too.
TEST(FixedCachesTest, WhatNeedsTheLastOfThePositionsIsRefused) {
  const struct {
    std::vector<std::vector<std::string>> nodes;  // operator, inputs, output
    const char* says;
  } cases[] = {
      {{{"ReduceMax", "places", "factor"}}, "takes the numbers of all positions at once"},
      {{{"Unsqueeze", "places", "first", "row"},
        {"Add", "row", "axis", "more"},
        {"ReduceSum", "more", "factor"}},
       "takes the numbers of all positions at once"},
      {{{"Gather", "places", "last_one", "factor"}}, "counts positions from the last one on"},
      {{{"Sub", "total_long", "limit", "begin"},
        {"Unsqueeze", "begin", "first", "begins"},
        {"Slice", "table", "begins", "ends", "first", "factor"}},
       "begins at a number of positions"},
      {{{"Sub", "total_long", "limit", "begin"}, {"Range", "begin", "total_long", "one", "factor"}},
       "begins with a number of positions"},
  };
  for (const auto& one : cases) {
    LongAngles m(1);
    m.Ints("first", {0});
    m.Ints("last_one", {-1});
    m.Ints("ends", {8});
    m.Ints("table", {0, 1, 4, 9, 16, 25, 36, 49});
    onnx::TensorProto* zero = m.graph()->add_initializer();
    zero->set_name("zero");
    zero->set_data_type(onnx::TensorProto::INT64);
    zero->add_int64_data(0);
    m.Node("Range", {"zero", "total_long", "one"}, {"places"});
    for (const std::vector<std::string>& words : one.nodes)
      m.Node(words[0], {words.begin() + 1, words.end() - 1}, {words.back()});
    m.Output("factor");
    FixedCaches caches;
    EXPECT_TRUE(Says(ImportWithFixedCaches(m.Make(), Rows(1), kLength, {}, nullptr, &caches).status(),
                     {one.nodes.back()[0].c_str(), one.says, "--shape"}));
  }
}

// ------------------------------------------------------------------------------------------ refusals

Status Refusal(Decoder& m) {
  auto fixed = Fixed(m, 1);
  return fixed.ok() ? Status::Ok() : fixed.status();
}

TEST(FixedCachesTest, WhatSeesAllPositionsIsRefused) {
  Decoder mean(Masks::kRanges);  // of a cache
  Set(mean.Node("ReduceMean", {"present_key", "two"}, {"mean"}), "keepdims", {0});
  mean.Output("mean");
  EXPECT_TRUE(Says(Refusal(mean), {"ReduceMean \"ReduceMean_mean\"", "\"past_key\"", "--shape"}));

  Decoder sum(Masks::kRanges);  // of numbers that are no mask
  Set(sum.Node("ReduceSum", {"keys", "zero"}, {"sum"}), "keepdims", {0});
  sum.Output("sum");
  EXPECT_TRUE(Says(Refusal(sum), {"--cache-length 7"}));

  Decoder weighed(Masks::kRanges);  // by what is of no cache
  Set(weighed.Node("Cast", {"keys"}, {"keys_f"}), "to", {onnx::TensorProto::FLOAT});
  weighed.Node("MatMul", {"keys_f", "present_key"}, {"weighed"});
  weighed.Output("weighed");
  EXPECT_TRUE(Says(Refusal(weighed), {"MatMul \"MatMul_weighed\"", "adds up over the cached positions"}));

  Decoder longer(Masks::kRanges);  // an output that grows
  longer.Node("Identity", {"keys"}, {"line"});
  longer.Output("line");
  EXPECT_TRUE(Says(Refusal(longer), {"the output \"line\" grows"}));
}

TEST(FixedCachesTest, WhatStandsBehindAllPositionsIsNotShownByItsPlace) {
  Decoder m(Masks::kSink);
  m.Ints("last", {-1});
  Set(m.Node("Gather", {"of_all", "last"}, {"of_sink"}), "axis", {3});
  m.Output("of_sink");
  EXPECT_TRUE(Says(Refusal(m), {"Gather \"Gather_of_sink\"", "behind all positions"}));
}

TEST(FixedCachesTest, WhatMustBeKnownAndFollowsFromTheirNumberInARunIsRefused) {
  Decoder m(Masks::kRanges, false);
  m.Node("Min", {"total", "three"}, {"few"});
  m.Node("Expand", {"one", "few"}, {"ones"});
  Set(m.Node("ReduceSum", {"ones", "zero"}, {"count"}), "keepdims", {0});
  m.Output("count");
  EXPECT_TRUE(
      Says(Refusal(m), {"--cache-length 7", "Expand \"Expand_ones\"", "decides it in each run", "--shape"}));
}

TEST(FixedCachesTest, ACacheIsLongerThanARunAndItsLengthIsSaidOnce) {
  Decoder m(Masks::kNone);
  FixedCaches caches;
  EXPECT_TRUE(Says(ImportWithFixedCaches(m.Make(), Rows(kLength), kLength, {}, nullptr, &caches).status(),
                   {"a run adds 7 positions"}));
  ImportOptions twice = Rows(1);
  twice.symbols["past_sequence_length"] = 3;
  EXPECT_TRUE(Says(ImportWithFixedCaches(m.Make(), twice, kLength, {}, nullptr, &caches).status(),
                   {"--shape past_sequence_length says so as well"}));
}

TEST(FixedCachesTest, WithoutALengthAPlanIsForOneNumberOfPositionsAndSaysSo) {
  Decoder m(Masks::kRanges);
  ImportOptions options = Rows(1);
  options.symbols["past_sequence_length"] = 3;
  auto graph = ImportModel(m.Make(), options, nullptr);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const std::string note = NoteOnGrowingCaches(*m.Make(), *graph);
  EXPECT_NE(note.find("exactly 3 cached positions"), std::string::npos) << note;
  EXPECT_NE(note.find("--cache-length"), std::string::npos) << note;
}

// ------------------------------------------------------------------------- expressions of dimensions

TEST(DimExpressionTest, AreEvaluated) {
  const std::map<std::string, int64_t> symbols = {{"past", 7}, {"s0", 3}, {"seq-len", 5}, {"odd name", 2}};
  const auto value = [&](const char* text) {
    std::vector<std::string> missing;
    return importer::EvaluateDim(text, symbols, &missing).value_or(-1);
  };
  EXPECT_EQ(value("past + s0"), 10);
  EXPECT_EQ(value("2*s0 - 1"), 5);
  EXPECT_EQ(value("s0-1"), 2);
  EXPECT_EQ(value("seq-len"), 5);
  EXPECT_EQ(value("odd name"), 2);
  EXPECT_EQ(value("(past + 1)//s0"), 2);
  EXPECT_EQ(value("floor(past/2)"), 3);
  EXPECT_EQ(value("Max(s0, past) % 4"), 3);
  EXPECT_EQ(value("past/2"), -1);
  EXPECT_EQ(value("past//0"), -1);
  EXPECT_EQ(value("past +"), -1);
  EXPECT_EQ(value("9999999999999999999"), -1);
  EXPECT_EQ(value(std::string(1000, '(').c_str()), -1);
}

TEST(DimExpressionTest, WhatIsMissingIsNamed) {
  std::vector<std::string> missing;
  EXPECT_FALSE(importer::EvaluateDim("past + now", {{"past", 1}}, &missing));
  EXPECT_EQ(missing, std::vector<std::string>{"now"});
  EXPECT_EQ(importer::SymbolsOf("a + 2*b"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(importer::SymbolsOf("?"), std::vector<std::string>{"?"});
}

}  // namespace
}  // namespace rondo
