// Caches of a fixed length whose type differs from the model's computation, as converters to f16 leave ports
// (keep_io_types): casts stand between the caches and attention. They give the results of growing caches, and
// hold the same rows to the last bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/import/import.h"
#include "tests/import/growing_decoder.h"

namespace rondo {
namespace {

constexpr int kF32 = onnx::TensorProto::FLOAT, kF16 = onnx::TensorProto::FLOAT16,
              kBf16 = onnx::TensorProto::BFLOAT16;

void Cast(ModelMaker& m, const std::string& from, const std::string& to, int type) {
  Set(m.Node("Cast", {from}, {to}), "to", {type});
}

// Puts casts around the nodes that append to the caches of `m` or write them. These nodes compute in type
// `inside`, cache ports have type `kept`, and the rest is unchanged.
void PutCasts(Decoder& m, int inside, int kept) {
  std::set<std::string> ports;
  for (auto* list : {m.graph()->mutable_input(), m.graph()->mutable_output()}) {
    for (onnx::ValueInfoProto& port : *list) {
      if (port.name().find("_key") == std::string::npos && port.name().find("_value") == std::string::npos)
        continue;
      port.mutable_type()->mutable_tensor_type()->set_elem_type(kept);
      ports.insert(port.name());
    }
  }
  const std::set<std::string> floats = {"now_rows_in_one", "x_rows_in_one", "now", "x",
                                        "past_key",        "past_value"};
  std::set<std::string> cast;
  const int nodes = m.graph()->node_size();
  for (int i = 0; i < nodes; ++i) {
    onnx::NodeProto* node = m.graph()->mutable_node(i);
    const bool joins = node->op_type() == "Concat" && ports.count(node->output(0)) != 0;
    if (!joins && node->op_type() != "GroupQueryAttention") {
      for (std::string& input : *node->mutable_input()) {
        if (ports.count(input) != 0 && input.rfind("present", 0) == 0) input += "_read";
      }
      continue;
    }
    for (int k = 0; k < m.graph()->node(i).input_size(); ++k) {
      const std::string from = m.graph()->node(i).input(k);
      if (floats.count(from) == 0) continue;
      m.graph()->mutable_node(i)->set_input(k, from + "_inside");
      if (cast.insert(from).second) Cast(m, from, from + "_inside", inside);
    }
    for (int k = 0; k < m.graph()->node(i).output_size(); ++k) {
      const std::string to = m.graph()->node(i).output(k);
      m.graph()->mutable_node(i)->set_output(k, to + "_inside");
      Cast(m, to + "_inside", to, ports.count(to) != 0 ? kept : kF32);
      if (joins) Cast(m, to + "_inside", to + "_read", kF32);
    }
  }
}

struct Types {
  int inside, kept;
  bool in_place;  // rows are written into the cache in place
};
// If the cache's type cannot hold the other type exactly, every run rounds again, as the model does.
const Types kTypes[] = {{kF16, kF32, true},   {kBf16, kF32, true},  {kF32, kF16, false},
                        {kF32, kBf16, false}, {kBf16, kF16, false}, {kF16, kBf16, false}};
const Masks kMasks[] = {Masks::kGrouped, Masks::kGroupedMask, Masks::kGroupedLengths, Masks::kRanges,
                        Masks::kGathered};

TEST(CastCachesTest, MeanWhatGrowingOnesDoAtEveryNumberOfPositions) {
  for (const Masks masks : kMasks) {
    for (const Types& types : kTypes) {
      for (const int64_t rows : {1, 2}) {
        SCOPED_TRACE("masks " + std::to_string(static_cast<int>(masks)) + ", in " +
                     std::to_string(types.inside) + ", kept in " + std::to_string(types.kept));
        Decoder m(masks);
        PutCasts(m, types.inside, types.kept);
        auto fixed = Fixed(m, rows);
        ASSERT_TRUE(fixed.ok()) << fixed.status().message();
        for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
        if (HasFailure()) return;
      }
    }
  }
}

// A row is rounded once, when it is written, and the cache stays in place.
TEST(CastCachesTest, AreWrittenInPlaceWhereTheWiderTypeGivesBackWhatIsRead) {
  for (const Masks masks : kMasks) {
    for (const Types& types : kTypes) {
      if (types.kept != kF32) continue;
      Decoder m(masks);
      PutCasts(m, types.inside, types.kept);
      auto fixed = Fixed(m, 1);
      ASSERT_TRUE(fixed.ok()) << fixed.status().message();
      for (const ir::StatePair& state : fixed->states) {
        const ir::Node& kept = fixed->node(fixed->outputs[static_cast<size_t>(state.output)].node);
        const ir::NodeId cache = fixed->inputs[static_cast<size_t>(state.input)].node;
        EXPECT_TRUE(kept.op == ir::Op::kIndexedWrite && kept.inputs[0] == cache)
            << "masks " << static_cast<int>(masks) << " in " << types.inside;
      }
    }
  }
}

// The number of positions from GroupQueryAttention is found behind the casts.
TEST(CastCachesTest, AnInputSaysHowManyPositionsAreCachedWhereTheModelsOwnDoNot) {
  for (const auto& [masks, asked] : {std::pair{Masks::kGrouped, true}, std::pair{Masks::kGroupedMask, false},
                                     std::pair{Masks::kGroupedLengths, false}}) {
    Decoder m(masks);
    PutCasts(m, kF16, kF32);
    const auto graph = Fixed(m, 1);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(std::any_of(graph->inputs.begin(), graph->inputs.end(),
                          [](const ir::GraphInput& input) { return input.name == "past_sequence_length"; }),
              asked);
  }
}

// So is the size of a head, if the model leaves it open.
TEST(CastCachesTest, TheSizeOfAHeadFollowsFromTheProductBefore) {
  for (const bool joined : {false, true}) {
    ModelMaker m;
    DescribePort(m.graph()->add_input(), "x", kF32, {"1", "rows", "8"});
    m.Floats("weight", {8, 16}, Random(8 * 16, 1));
    m.Node("MatMul", {"x", "weight"}, {"product"});
    Cast(m, "product", "rows", kF16);
    for (const std::string part : {"key", "value"}) {
      DescribePort(m.graph()->add_input(), "past_" + part, kF32,
                   {"1", "1", "past_sequence_length", "head_size"});
      Cast(m, "past_" + part, "narrow_" + part, kF16);
      Cast(m, "new_" + part, "present_" + part, kF32);
      if (!joined) continue;
      m.Ints("one_" + part, {1});
      m.Node("Unsqueeze", {"rows", "one_" + part}, {"head_" + part});
      Set(m.Node("Concat", {"narrow_" + part, "head_" + part}, {"new_" + part}), "axis", {2});
    }
    if (joined) {
      m.Node("Identity", {"x"}, {"y"});
    } else {
      m.Input("last", {1}, onnx::TensorProto::INT32);
      m.Input("total", {}, onnx::TensorProto::INT32);
      onnx::NodeProto* node = m.Node("GroupQueryAttention",
                                     {"rows", "rows", "rows", "narrow_key", "narrow_value", "last", "total"},
                                     {"y", "new_key", "new_value"});
      node->set_domain("com.microsoft");
      Set(node, "num_heads", {1});
      Set(node, "kv_num_heads", {1});
    }
    m.Output("y");
    for (const char* name : {"present_key", "present_value"})
      DescribePort(m.graph()->add_output(), name, kF32, {"1", "1", "total_sequence_length", "head_size"});
    FixedCaches caches;
    auto graph = ImportWithFixedCaches(m.Make(), Rows(1), kLength, {}, nullptr, &caches);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    for (size_t i : {size_t{1}, size_t{2}})
      EXPECT_EQ(graph->node(graph->inputs[i].node).shape, Shape({1, 1, kLength, 16}))
          << graph->inputs[i].name;
  }
}

// An output of another type than its cache input keeps its type, whatever rows are written.
TEST(CastCachesTest, WhatComesOutInAnotherTypeIsNotWrittenToTheCache) {
  for (const Masks masks : {Masks::kGrouped, Masks::kRanges}) {
    Decoder m(masks);
    PutCasts(m, kF16, kF32);
    for (onnx::ValueInfoProto& output : *m.graph()->mutable_output()) {
      if (output.name().rfind("present", 0) == 0)
        output.mutable_type()->mutable_tensor_type()->set_elem_type(kF16);
    }
    for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
      if (node.output(0).rfind("present", 0) == 0 && node.output(0).find("_inside") == std::string::npos &&
          node.output(0).find("_read") == std::string::npos)
        node.mutable_attribute(0)->set_i(kF16);
    }
    FixedCaches caches;
    const auto graph = ImportWithFixedCaches(m.Make(), Rows(1), kLength, {}, nullptr, &caches);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(ir::Validate(*graph), "");
    for (const ir::GraphOutput& output : graph->outputs)
      EXPECT_EQ(graph->node(output.node).dtype, output.name == "y" ? DType::kF32 : DType::kF16)
          << output.name;
  }
}

// Converters to f16 leave casts of inputs at the end of the file, and casts of outputs. If the output differs
// from the rounded value, the cache must be kept in the wider type.
TEST(CastCachesTest, WhatIsReadMayBeWhatIsKept) {
  for (const bool rounded : {true, false}) {
    Decoder m(Masks::kRanges);
    for (const std::string name : {"key", "value"}) {
      for (onnx::NodeProto& node : *m.graph()->mutable_node()) {
        if (node.output(0) != "present_" + name) continue;
        Set(m.Node("Cast", {node.input(1)}, {"new_" + name}), "to", {onnx::TensorProto::FLOAT16});
        node.set_input(0, "narrow_" + name);
        node.set_input(1, "new_" + name);
        node.set_output(0, "all_" + name);
        break;
      }
      Set(m.Node("Cast", {"past_" + name}, {"narrow_" + name}), "to", {onnx::TensorProto::FLOAT16});
      Set(m.Node("Cast", {"all_" + name}, {rounded ? "present_" + name : "wide_" + name}), "to",
          {onnx::TensorProto::FLOAT});
      if (!rounded) m.Node("Neg", {"wide_" + name}, {"present_" + name});
    }
    for (const int64_t rows : {1, 2}) {
      auto fixed = Fixed(m, rows);
      ASSERT_TRUE(fixed.ok()) << fixed.status().message();
      for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows);
    }
  }
}

}  // namespace
}  // namespace rondo
