// Caches of a fixed length: a model with growing caches gives the same results with them at every number of
// cached positions.
#include <gtest/gtest.h>

#include <cstring>

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

// As transformers' exporter reads a mask by GatherND. In order, the real positions come first; in another
// order they do not, and the count must still be right.
TEST(FixedCachesTest, AMaskThatIsReadInAnyOrderMayBeCounted) {
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
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    for (int64_t past = 0; past + 1 <= kLength; ++past) ExpectSameRun(m, *fixed, past, 1);
  }
}

// As in latent attention.
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

// As in the branch of a decoder without a past.
TEST(FixedCachesTest, ACacheThatIsNotReadIsBegunByTheRun) {
  ModelMaker m;
  const std::string size = std::to_string(kSize);
  DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "1", "rows", size});
  DescribePort(m.graph()->add_input(), "past_key", onnx::TensorProto::FLOAT,
               {"1", "1", "past_sequence_length", size});
  m.Node("Neg", {"x"}, {"present_key"});
  DescribePort(m.graph()->add_output(), "present_key", onnx::TensorProto::FLOAT,
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

// In that branch a mask covers only the run's own positions, which are the first of all.
TEST(FixedCachesTest, AMaskOfARunsOwnPositionsIsTheFirstOfAMaskOfAll) {
  ModelMaker m;
  const std::string size = std::to_string(kSize), both = "past_sequence_length + rows";
  DescribePort(m.graph()->add_input(), "attention_mask", onnx::TensorProto::INT64, {"1", both});
  DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT, {"1", "1", "rows", size});
  DescribePort(m.graph()->add_input(), "past_key", onnx::TensorProto::FLOAT,
               {"1", "1", "past_sequence_length", size});
  Set(m.Node("Cast", {"attention_mask"}, {"mask"}), "to", {onnx::TensorProto::FLOAT});
  m.Ints("last", {-1});
  m.Node("Unsqueeze", {"mask", "last"}, {"column"});
  m.Node("Mul", {"x", "column"}, {"y"});
  m.Node("Neg", {"x"}, {"present_key"});
  m.Output("y");
  DescribePort(m.graph()->add_output(), "present_key", onnx::TensorProto::FLOAT, {"1", "1", both, size});
  FixedCaches caches;
  auto graph = ImportWithFixedCaches(m.Make(), Rows(2), kLength, {}, nullptr, &caches);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_EQ(graph->inputs.size(), 3u);
  const Numbers x = Random(2 * kSize, 5);
  std::vector<int64_t> mask(kLength);
  mask[1] = 1;
  const auto got = ir::EvaluateGraph(
      *graph, {Data(Shape({1, kLength}), mask), Data(Shape({1, 1, 2, kSize}), x),
               Data(Shape({1, 1, kLength, kSize}), Numbers(static_cast<size_t>(kLength * kSize), 7.0f))});
  ASSERT_TRUE(got.ok()) << got.status().message();
  const auto at = [&](size_t output, size_t i) {
    float value;
    std::memcpy(&value, (*got)[output]->bytes.data() + 4 * i, 4);
    return value;
  };
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(at(0, i), i < kSize ? 0 : x[i]) << "element " << i;
  for (size_t i = 0; i < static_cast<size_t>(kLength * kSize); ++i)
    EXPECT_EQ(at(1, i), i < x.size() ? -x[i] : 7.0f) << "element " << i;
}

// In a decoder with an encoder, after the first step the encoder's output is not an input, and nothing else
// has its length. The caller gives the length, or the mask's name shows where it belongs.
TEST(FixedCachesTest, AMaskOfOtherLengthsThanPositionsStaysAsItIs) {
  const struct {
    const char *mask, *dim;
    int64_t given;
  } cases[] = {{"encoder_attention_mask", "encoder_sequence_length", 3},
               {"encoder_attention_mask", "source", kLength},
               {"cross_mask", "source", kLength},
               {"mask", "encoder_sequence_length", kLength},
               {"image_mask", "patches", 3}};
  for (const auto& [mask, dim, given] : cases)
    for (const bool as_shape : {false, true}) {
      SCOPED_TRACE(std::string(mask) + " [1, " + dim + "] of " + std::to_string(given));
      Decoder m(Masks::kTriangle);
      DescribePort(m.graph()->add_input(), mask, onnx::TensorProto::INT64, {"1", dim});
      m.Node("Neg", {mask}, {"turned_mask"});
      m.Output("turned_mask");
      ImportOptions options = Rows(1);
      if (as_shape) {
        options.input_shapes[mask] = {1, given};
      } else {
        options.symbols[dim] = given;
      }
      FixedCaches caches;
      const auto graph = ImportWithFixedCaches(m.Make(), options, kLength, {}, nullptr, &caches);
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      std::vector<std::string> inputs;
      for (const ir::GraphInput& input : graph->inputs) {
        inputs.push_back(input.name);
        if (input.name != mask) continue;
        EXPECT_EQ(graph->node(input.node).shape, Shape({1, given}));
      }
      // This mask does not give the number of cached positions.
      EXPECT_EQ(inputs,
                (std::vector<std::string>{"x", "past_key", "past_value", mask, "past_sequence_length"}));
    }
}

TEST(FixedCachesTest, AMaskOverPositionsMayBeGivenAsLongAsTheCaches) {
  Decoder m(Masks::kInput);
  ImportOptions options = Rows(1);
  options.input_shapes["attention_mask"] = {1, kLength};
  FixedCaches caches;
  const auto graph = ImportWithFixedCaches(m.Make(), options, kLength, {}, nullptr, &caches);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  for (const ir::GraphInput& input : graph->inputs)
    EXPECT_NE(input.name, "past_sequence_length") << "the mask says it";
}

std::vector<std::string> InputsOf(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::GraphInput& input : graph.inputs) names.push_back(input.name);
  return names;
}

// The mask's length equals the caches' by chance, or is open. Its meaning is unknown, so the caller gives it.
TEST(FixedCachesTest, AMaskThatMasksNoCacheIsOverPositionsOnlyWhereTheCallerSaysSo) {
  for (const char* name : {"image_mask", "image_attention_mask"}) {
    for (const bool given : {true, false}) {
      Decoder m(Masks::kTriangle);
      DescribePort(m.graph()->add_input(), name, onnx::TensorProto::INT64, {"1", "patches"});
      m.Node("Neg", {name}, {"turned_mask"});
      m.Output("turned_mask");
      ImportOptions options = Rows(1);
      if (given) options.symbols["patches"] = kLength;
      FixedCaches caches;
      const auto fixed = [&] {
        return ImportWithFixedCaches(m.Make(), options, kLength, {}, nullptr, &caches);
      };
      EXPECT_TRUE(Says(fixed().status(), {name, "a length of its own", "--position-mask"}));
      options.position_masks = {name};
      auto graph = fixed();
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      EXPECT_EQ(InputsOf(*graph), (std::vector<std::string>{"x", "past_key", "past_value", name}));
      options.position_masks = {"none"};
      graph = fixed();
      ASSERT_EQ(graph.ok(), given) << graph.status().message();
      if (!given) continue;
      EXPECT_EQ(InputsOf(*graph),
                (std::vector<std::string>{"x", "past_key", "past_value", name, "past_sequence_length"}));
      for (int64_t past = 0; past < kLength; ++past) {  // whatever the mask holds
        ir::Values inputs = {Data(Shape({1, kHeads, 1, kSize}), Random(kHeads * kSize, 9)),
                             Data(Shape({1, kHeads, kLength, kSize}), Numbers(kHeads * kLength * kSize, 7)),
                             Data(Shape({1, kHeads, kLength, kSize}), Numbers(kHeads * kLength * kSize, 7)),
                             Data(Shape({1, kLength}), std::vector<int64_t>(kLength, 1)),
                             Data(Shape({1}), std::vector<int64_t>{past})};
        const auto got = ir::EvaluateGraph(*graph, inputs);
        ASSERT_TRUE(got.ok()) << got.status().message();
        float first, behind;
        std::memcpy(&first, (*got)[2]->bytes.data() + 4 * past * kSize, 4);
        std::memcpy(&behind, (*got)[2]->bytes.data() + 4 * ((past + 1) % kLength) * kSize, 4);
        EXPECT_EQ(first, Random(kHeads * kSize, 9)[0]) << "the row is written behind " << past;
        EXPECT_EQ(behind, 7);
      }
    }
  }
}

// A mask with its own length that masks scores.
TEST(FixedCachesTest, AMaskOfAnyNameIsOverPositionsWhereItMasksCaches) {
  Decoder m(Masks::kRanges);
  DescribePort(m.graph()->add_input(), "kept_mask", onnx::TensorProto::INT64, {"1", "own"});
  m.Node("Equal", {"kept_mask", "zero"}, {"not_kept"});
  m.Node("Where", {"not_kept", "least", "scores"}, {"fewer"});
  for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
    if (node.op_type() == "Softmax") node.set_input(0, "fewer");
  }
  auto* nodes = m.graph()->mutable_node();  // put into topological order
  for (int i = 0; i < nodes->size(); ++i) {
    const std::string& op = nodes->Get(i).op_type();
    if (op != "Softmax") continue;
    std::vector<onnx::NodeProto> rest(nodes->begin() + i, nodes->end() - 2),
        last(nodes->end() - 2, nodes->end());
    nodes->DeleteSubrange(i, nodes->size() - i);
    for (const auto& node : last) *nodes->Add() = node;
    for (const auto& node : rest) *nodes->Add() = node;
    break;
  }
  FixedCaches caches;
  const auto graph = ImportWithFixedCaches(m.Make(), Rows(1), kLength, {}, nullptr, &caches);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(InputsOf(*graph), (std::vector<std::string>{"x", "past_key", "past_value", "kept_mask"}));
}

// A mask with its own length whose name shows nothing: the error says how to declare it.
TEST(FixedCachesTest, ALengthThatIsLeftOpenMayBeThatOfAMask) {
  Decoder m(Masks::kTriangle);
  DescribePort(m.graph()->add_input(), "a", onnx::TensorProto::INT64, {"1", "L"});
  m.Node("Neg", {"a"}, {"turned_mask"});
  m.Output("turned_mask");
  ImportOptions options = Rows(1);
  FixedCaches caches;
  const auto fixed = [&] { return ImportWithFixedCaches(m.Make(), options, kLength, {}, nullptr, &caches); };
  EXPECT_TRUE(Says(fixed().status(), {"\"L\" (input \"a\", axis 1)", "--position-mask INPUT"}));
  options.position_masks = {"a"};
  const auto graph = fixed();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(InputsOf(*graph), (std::vector<std::string>{"x", "past_key", "past_value", "a"}));
}

// Token kinds for all positions: 0 is a kind here, not a missing position.
TEST(FixedCachesTest, WhatIsNotNamedForAMaskDoesNotSayHowManyPositionsThereAre) {
  Decoder m(Masks::kTriangle);
  DescribePort(m.graph()->add_input(), "kinds", onnx::TensorProto::INT64,
               {"1", "past_sequence_length + rows"});
  m.Node("Neg", {"kinds"}, {"turned_kinds"});
  m.Output("turned_kinds");
  ImportOptions options = Rows(1);
  FixedCaches caches;
  const auto fixed = [&] { return ImportWithFixedCaches(m.Make(), options, kLength, {}, nullptr, &caches); };
  auto graph = fixed();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(InputsOf(*graph),
            (std::vector<std::string>{"x", "past_key", "past_value", "kinds", "past_sequence_length"}));
  options.position_masks = {"kinds"};
  graph = fixed();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(InputsOf(*graph), (std::vector<std::string>{"x", "past_key", "past_value", "kinds"}));
}

// ------------------------------------------------------------------------------------------ refusals

Status Refusal(Decoder& m) {
  auto fixed = Fixed(m, 1);
  return fixed.ok() ? Status::Ok() : fixed.status();
}

TEST(FixedCachesTest, WhatSeesAllPositionsIsRefused) {
  Decoder mean(Masks::kRanges);  // a mean over a cache
  Set(mean.Node("ReduceMean", {"present_key", "two"}, {"mean"}), "keepdims", {0});
  mean.Output("mean");
  EXPECT_TRUE(Says(Refusal(mean), {"ReduceMean \"ReduceMean_mean\"", "\"past_key\"", "--shape"}));

  Decoder sum(Masks::kGathered);  // a sum over several rows of positions joined into one
  Set(sum.Node("ReduceSum", {"in_one", "zero"}, {"sum"}), "keepdims", {0});
  sum.Output("sum");
  EXPECT_TRUE(Says(Refusal(sum), {"ReduceSum \"ReduceSum_sum\"", "several rows of positions"}));

  Decoder weighed(Masks::kRanges);  // weights that do not belong to a cache
  Set(weighed.Node("Cast", {"keys"}, {"keys_f"}), "to", {onnx::TensorProto::FLOAT});
  weighed.Node("MatMul", {"keys_f", "present_key"}, {"weighed"});
  weighed.Output("weighed");
  EXPECT_TRUE(Says(Refusal(weighed), {"MatMul \"MatMul_weighed\"", "adds up over the cached positions"}));

  Decoder longer(Masks::kCut);  // an output with elements after all positions
  longer.Node("Neg", {"more_keys"}, {"line"});
  longer.Output("line");
  EXPECT_TRUE(Says(Refusal(longer), {"the output \"line\" grows", "not by an element for each"}));

  Decoder weights(Masks::kRanges);  // weights of a matmul that no attention kernel computes
  weights.Node("MatMul", {"scores", "present_key"}, {"no_attention"});
  weights.Output("no_attention");
  EXPECT_TRUE(Says(Refusal(weights), {"MatMul \"MatMul_no_attention\"", "\"past_key\"", "--shape"}));
}

// Scores as outputs beside attention, and values computed from them. They have a column for each position of
// the cache, which is 0 if a run has no such position.
TEST(FixedCachesTest, OutputsMayHaveAnElementForEveryPosition) {
  for (const Masks masks : {Masks::kNone, Masks::kTriangle, Masks::kRanges, Masks::kInput, Masks::kWindow,
                            Masks::kCut, Masks::kFromEnd, Masks::kSink}) {
    for (const int64_t rows : {1, 2}) {
      if (masks == Masks::kInput && rows == 2) continue;
      SCOPED_TRACE("masks " + std::to_string(static_cast<int>(masks)));
      Decoder m(masks);
      m.Node("Neg", {"now"}, {"other_queries"});
      m.Node("MatMul", {"other_queries", "turned"}, {"products"});
      m.Node("Tanh", {"products"}, {"capped"});
      Set(m.Node("Softmax", {"capped"}, {"of_each"}), "axis", {-1});
      for (const char* name : {"products", "capped", "of_each"}) m.Output(name);
      auto fixed = Fixed(m, rows);
      ASSERT_TRUE(fixed.ok()) << fixed.status().message();
      ASSERT_EQ(fixed->outputs.size(), 6u);
      for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
    }
  }
}

// ONNX Runtime's builder writes MultiHeadAttention's mask for a run's positions among themselves and expands
// it over all positions. That only works for a single position, or without cached ones.
TEST(FixedCachesTest, AModelThatTakesSeveralPositionsOnlyWhereNoneAreCachedSaysSo) {
  for (const int64_t rows : {1, 3}) {
    Decoder m(Masks::kNone);
    Set(m.Node("Concat", {"rows", "rows"}, {"square"}), "axis", {0});
    Set(m.Node("Concat", {"rows", "total"}, {"whole"}), "axis", {0});
    m.Node("ConstantOfShape", {"square"}, {"among_themselves"});
    m.Node("Expand", {"among_themselves", "whole"}, {"mask"});
    for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
      if (node.op_type() == "Softmax") node.set_input(0, "masked");
    }
    m.Node("Add", {"scores", "mask"}, {"masked"});
    auto fixed = Fixed(m, rows);
    EXPECT_EQ(fixed.ok(), rows == 1) << fixed.status().message();
    if (rows == 1) continue;
    EXPECT_TRUE(
        Says(fixed.status(), {"Expand \"Expand_mask\"", "3 positions at once only where none are cached",
                              "one position a run (--shape)"}));
  }
  Decoder shorter(Masks::kTriangle, true, kLength - 2);  // a table that ends early is another case
  EXPECT_FALSE(Says(Fixed(shorter, 2).status(), {"none are cached"}));
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
  m.Node("HannWindow", {"few"}, {"window"});
  m.Output("window");
  EXPECT_TRUE(Says(Refusal(m), {"--cache-length 7", "HannWindow \"HannWindow_window\"",
                                "decides it in each run", "--shape"}));
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
  const std::map<std::string, ir::Size> symbols = {{"past", 7}, {"s0", 3}, {"seq-len", 5}, {"odd name", 2}};
  const auto value = [&](const char* text) {
    std::vector<std::string> missing;
    return importer::EvaluateDim(text, symbols, &missing).value_or(-1).extent();
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
