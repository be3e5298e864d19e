// Caches of a fixed length that GroupQueryAttention writes, in models that also compute with their length.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "compiler/import/import.h"
#include "compiler/ir/evaluate.h"
#include "tests/import/growing_decoder.h"
#include "tests/import/model_maker.h"
#include "tests/ir/data.h"

namespace rondo {
namespace {

TEST(GroupedCachesTest, MeanWhatGrowingOnesDoAtEveryNumberOfPositions) {
  for (const Masks masks : {Masks::kGrouped, Masks::kGroupedMask, Masks::kGroupedLengths}) {
    for (const int64_t rows : {1, 2}) {
      SCOPED_TRACE("masks " + std::to_string(static_cast<int>(masks)));
      Decoder m(masks);
      auto fixed = Fixed(m, rows);
      ASSERT_TRUE(fixed.ok()) << fixed.status().message();
      for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
    }
  }
}

// The model's own input gives the number: its mask, or the positions of its writes. No second input is added.
TEST(GroupedCachesTest, AnInputSaysHowManyPositionsAreCachedWhereTheModelsOwnDoNot) {
  const auto asked = [](Masks masks) {
    Decoder m(masks);
    const auto graph = Fixed(m, 1);
    return std::any_of(graph->inputs.begin(), graph->inputs.end(),
                       [](const ir::GraphInput& input) { return input.name == "past_sequence_length"; });
  };
  EXPECT_TRUE(asked(Masks::kGrouped));
  EXPECT_FALSE(asked(Masks::kGroupedMask));
  EXPECT_FALSE(asked(Masks::kGroupedLengths));
}

// The operator writes one layer's cache; another layer appends by Concat.
TEST(GroupedCachesTest, MayStandBesideJoinedOnes) {
  Decoder m(Masks::kGrouped);
  DescribePort(m.graph()->add_input(), "past_more", onnx::TensorProto::FLOAT,
               {"1", std::to_string(kHeads), "past_sequence_length", std::to_string(kSize)});
  Set(m.Node("Concat", {"past_more", "x"}, {"present_more"}), "axis", {2});
  Set(m.Node("Transpose", {"present_more"}, {"more_turned"}), "perm", {0, 1, 3, 2});
  m.Node("MatMul", {"x", "more_turned"}, {"more_scores"});
  m.Node("Softmax", {"more_scores"}, {"more_weights"});
  m.Node("MatMul", {"more_weights", "present_more"}, {"more_y"});
  Set(m.Node("Transpose", {"more_y"}, {"more_rows"}), "perm", {0, 2, 1, 3});
  m.Node("Reshape", {"more_rows", "in_one"}, {"more"});
  m.Node("Add", {"y", "more"}, {"both"});
  m.graph()->mutable_output(0)->set_name("both");
  DescribePort(m.graph()->add_output(), "present_more", onnx::TensorProto::FLOAT,
               {"1", std::to_string(kHeads), "past_sequence_length + rows", std::to_string(kSize)});
  for (const int64_t rows : {1, 2}) {
    auto fixed = Fixed(m, rows);
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
  }
}

// Builders leave the head size open. It is the width of the matmul before, divided by the number of heads.
void ExpectSizeOfHead(bool quantised) {
  ModelMaker m;
  DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "rows", "8"});
  for (const char* name : {"past_key", "past_value"})
    DescribePort(m.graph()->add_input(), name, onnx::TensorProto::FLOAT,
                 {"1", "1", "past_sequence_length", "kv_cache_dim"});
  m.Input("last", {1}, onnx::TensorProto::INT32);
  m.Input("total", {}, onnx::TensorProto::INT32);
  if (quantised) {  // stored transposed
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
    DescribePort(m.graph()->add_output(), name, onnx::TensorProto::FLOAT,
                 {"1", "1", "total_sequence_length", "kv_cache_dim"});
  FixedCaches caches;
  auto graph = ImportWithFixedCaches(m.Make(), Rows(1), kLength, {}, nullptr, &caches);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (size_t i : {size_t{1}, size_t{2}})
    EXPECT_EQ(graph->node(graph->inputs[i].node).shape, Shape({1, 1, kLength, 16})) << graph->inputs[i].name;
}
TEST(GroupedCachesTest, TheSizeOfAHeadFollowsFromTheProductBefore) {
  ExpectSizeOfHead(false);
  ExpectSizeOfHead(true);
}

// Without GroupQueryAttention, builders write a matmul that computes the rows to append to the cache.
TEST(GroupedCachesTest, TheSizeOfAHeadFollowsFromWhatIsPutBehindTheCache) {
  for (const bool joined : {true, false}) {
    ModelMaker m;
    DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "rows", "8"});
    for (const char* name : {"past_key", "past_value"})
      DescribePort(m.graph()->add_input(), name, onnx::TensorProto::FLOAT,
                   {"1", "2", "past_sequence_length", "kv_cache_dim"});
    m.Floats("weight", {8, 32}, Random(8 * 32, 1));
    m.Node("MatMul", {"x", "weight"}, {"rows"});
    std::vector<std::string> inputs = {"rows", "rows", "rows", "", "", "", "past_key", "past_value"};
    std::vector<std::string> outputs = {"y", "present_key", "present_value"};
    if (joined) {
      m.Ints("heads", {0, 0, 2, -1});
      m.Ints("in_one", {0, 0, 32});
      m.Node("Reshape", {"rows", "heads"}, {"rows_of_heads"});
      Set(m.Node("Transpose", {"rows_of_heads"}, {"new"}), "perm", {0, 2, 1, 3});
      for (const std::string part : {"key", "value"}) {
        Set(m.Node("Concat", {"past_" + part, "new"}, {"present_" + part}), "axis", {2});
        Set(m.Node("Transpose", {"present_" + part}, {"turned_" + part}), "perm", {0, 2, 1, 3});
        m.Node("Reshape", {"turned_" + part, "in_one"}, {part});
      }
      inputs = {"rows", "key", "value"}, outputs = {"y"};
    }
    onnx::NodeProto* node = m.Node("MultiHeadAttention", inputs, outputs);
    node->set_domain("com.microsoft");
    Set(node, "num_heads", {2});
    m.Output("y");
    for (const char* name : {"present_key", "present_value"})
      DescribePort(m.graph()->add_output(), name, onnx::TensorProto::FLOAT,
                   {"1", "2", "total_sequence_length", "kv_cache_dim"});
    FixedCaches caches;
    auto graph = ImportWithFixedCaches(m.Make(), Rows(1), kLength, {}, nullptr, &caches);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    for (size_t i : {size_t{1}, size_t{2}})
      EXPECT_EQ(graph->node(graph->inputs[i].node).shape, Shape({1, 2, kLength, 16}))
          << graph->inputs[i].name;
  }
}

// ONNX Runtime's builder writes angles for short and for long texts, and the shape of the mask decides.
// `table` 0: always those for short texts; 1: always those for long ones; 2: like the builder, those for long
// texts with more than 3 positions.
struct LongAngles : ModelMaker {
  explicit LongAngles(int table) {
    DescribePort(graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "rows", "64"});
    DescribePort(graph()->add_input(), "mask", onnx::TensorProto::INT64, {"1", "total_sequence_length"});
    for (const char* name : {"past_key", "past_value"})
      DescribePort(graph()->add_input(), name, onnx::TensorProto::FLOAT,
                   {"1", "1", "past_sequence_length", "16"});
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
      DescribePort(graph()->add_output(), name, onnx::TensorProto::FLOAT,
                   {"1", "1", "total_sequence_length", "16"});
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

  // y of a run of one row with `positions` positions including it.
  Result<DataPointer> Run(int64_t positions) {
    FixedCaches caches;
    RONDO_ASSIGN_OR_RETURN(ir::Graph graph,
                           ImportWithFixedCaches(Make(), Rows(1), kLength, {}, nullptr, &caches));
    std::vector<int64_t> mask(kLength);
    std::fill(mask.begin(), mask.begin() + positions, 1);
    const Shape cache = {1, 1, kLength, 16};
    ir::Values inputs = {Data({1, 1, 64}, Random(64, 1)), Data({1, kLength}, mask),
                         Data(cache, Random(kLength * 16, 2)), Data(cache, Random(kLength * 16, 3))};
    if (graph.inputs.back().name == "text_length")  // the initial value of states
      inputs.push_back(Data(Shape({1}), std::vector<int64_t>{0}));
    RONDO_ASSIGN_OR_RETURN(ir::Values out, ir::EvaluateGraph(graph, inputs));
    return out[0];
  }
};

TEST(GroupedCachesTest, WhatIsChosenByTheNumberOfPositionsIsChosenInTheRun) {
  for (const int64_t positions : {2, 3, 4, 7}) {
    LongAngles chosen(2), expected(positions > 3 ? 1 : 0);
    const auto got = chosen.Run(positions), want = expected.Run(positions);
    ASSERT_TRUE(got.ok()) << got.status().message();
    ASSERT_TRUE(want.ok()) << want.status().message();
    EXPECT_EQ(std::memcmp((*got)->bytes.data(), (*want)->bytes.data(), (*got)->bytes.size()), 0) << positions;
  }
}

// Also if an operator holds the caches: values computed from the length of the mask, of a cache, or of the
// operator's output.
TEST(GroupedCachesTest, WhatIsComputedFromTheNumberOfPositionsIsComputedInTheRun) {
  struct Case {
    const char* what;
    std::vector<std::vector<std::string>> nodes;  // operator, inputs, output
    std::function<int64_t(int64_t)> factor;       // the expected factor by the number of positions
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

TEST(GroupedCachesTest, WhatSeesAllPositionsIsRefused) {
  Decoder mean(Masks::kGrouped);  // a mean over a cache
  Set(mean.Node("ReduceMean", {"present_key", "two"}, {"mean"}), "keepdims", {0});
  mean.Output("mean");
  EXPECT_TRUE(Says(Fixed(mean, 1).status(), {"ReduceMean \"ReduceMean_mean\"", "\"past_key\"", "--shape"}));
}

TEST(GroupedCachesTest, WithoutItsLengthsTheOperatorIsRefused) {
  Decoder m(Masks::kGrouped);
  for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
    if (node.op_type() == "GroupQueryAttention") node.mutable_input()->DeleteSubrange(5, 2);
  }
  EXPECT_TRUE(Says(Fixed(m, 1).status(), {"GroupQueryAttention \"GroupQueryAttention_y\"", "seqlens_k"}));
}

// The scores that the operator outputs (output_qk), or their softmax, and the model's mask.
TEST(GroupedCachesTest, OutputsMayHaveAnElementForEveryPosition) {
  for (const Masks masks : {Masks::kGrouped, Masks::kGroupedMask, Masks::kGroupedLengths}) {
    for (const int64_t stage : {1, 2}) {
      for (const int64_t rows : {1, 2}) {
        SCOPED_TRACE("masks " + std::to_string(static_cast<int>(masks)) + ", stage " + std::to_string(stage));
        Decoder m(masks);
        for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
          if (node.op_type() != "GroupQueryAttention") continue;
          node.add_output("shown");
          Set(&node, "qk_output", {stage});
        }
        m.Output("shown");
        if (masks == Masks::kGroupedMask) {
          m.Node("Add", {"attention_mask", "one"}, {"line"});
          m.Output("line");
        }
        auto fixed = Fixed(m, rows);
        ASSERT_TRUE(fixed.ok()) << fixed.status().message();
        for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
      }
    }
  }
}

// Unlike a mask, a bias may hold anything after the real positions.
TEST(GroupedCachesTest, ABiasIsAddedUpOverThePositionsThatThereAre) {
  Decoder m(Masks::kGrouped);
  DescribePort(m.graph()->add_input(), "bias", onnx::TensorProto::FLOAT,
               {"1", "1", "rows", "past_sequence_length + rows"});
  Set(m.Node("ReduceSum", {"bias", "three"}, {"sum"}), "keepdims", {0});
  m.Output("sum");
  const auto fixed = Fixed(m, 1);
  ASSERT_TRUE(fixed.ok()) << fixed.status().message();
  for (int64_t past = 0; past + 1 <= kLength; ++past) {
    ir::Values inputs;
    for (const ir::GraphInput& input : fixed->inputs) {
      const Shape& shape = fixed->node(input.node).shape;
      Numbers numbers(static_cast<size_t>(shape.elements()), 1);
      if (input.name == "bias") std::fill(numbers.begin() + past + 1, numbers.end(), 1e3f);
      inputs.push_back(input.name == "past_sequence_length" ? Data(shape, std::vector<int64_t>{past})
                                                            : Data(shape, numbers));
    }
    const auto got = ir::EvaluateGraph(*fixed, inputs);
    ASSERT_TRUE(got.ok()) << got.status().message();
    EXPECT_EQ(scalar::Load<float>(DType::kF32, got->back()->bytes.data(), 0), static_cast<float>(past + 1));
  }
}

// The first input with several dims, which gives the number of positions that a run adds, is not always the
// tokens.
TEST(GroupedCachesTest, TheRowsThatAreWrittenAreThoseOfTheRun) {
  Decoder m(Masks::kGrouped);
  DescribePort(m.graph()->add_input(), "other", onnx::TensorProto::FLOAT, {"1", "3"});
  m.graph()->mutable_input()->SwapElements(0, m.graph()->input_size() - 1);
  for (onnx::ValueInfoProto& info : *m.graph()->mutable_input()) {
    if (info.name() == "past_key" || info.name() == "past_value")
      info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(2)->set_dim_param("past");
  }
  for (int i : {1, 2})
    m.graph()
        ->mutable_output(i)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(2)
        ->set_dim_param("all");
  m.Output("other");
  EXPECT_TRUE(
      Says(Fixed(m, 2).status(), {"GroupQueryAttention", "adds 2 positions to a cache, and a run adds 3"}));
}

// Decoders of texts and images are built without their embeddings. Their first input is positions of three
// kinds, [3, batch, rows].
TEST(GroupedCachesTest, RowsOfARunStandBehindTheBatch) {
  Decoder m(Masks::kGroupedMask);
  onnx::GraphProto* graph = m.graph();
  DescribePort(graph->add_input(), "position_ids", onnx::TensorProto::INT64, {"3", "batch", "rows"});
  for (int i = graph->input_size() - 1; i > 0; --i) graph->mutable_input()->SwapElements(i, i - 1);
  const auto rename = [](onnx::ValueInfoProto* port, int d, const char* name) {
    port->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(d)->set_dim_param(name);
  };
  for (onnx::ValueInfoProto& input : *graph->mutable_input()) {
    if (input.name() != "position_ids" && input.name() != "attention_mask") rename(&input, 0, "batch");
    if (input.name() == "attention_mask") rename(&input, 1, "all");
  }
  for (onnx::ValueInfoProto& output : *graph->mutable_output()) {
    if (output.name() != "y") rename(&output, 2, "all");
  }
  ImportOptions options = Rows(2);
  options.symbols["batch"] = 1;
  FixedCaches caches;
  const auto fixed = ImportWithFixedCaches(m.Make(), options, kLength, {}, nullptr, &caches);
  ASSERT_TRUE(fixed.ok()) << fixed.status().message();
  EXPECT_EQ(fixed->node(fixed->inputs[1].node).shape, Shape({1, kHeads, 2, kSize}));
}

}  // namespace
}  // namespace rondo
