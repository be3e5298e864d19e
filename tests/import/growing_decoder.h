// A small decoder with growing caches. Its runs are compared with those of its form with caches of fixed
// length.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/evaluate.h"
#include "compiler/passes/passes.h"
#include "compiler/quantise/quantise.h"
#include "core/scalar.h"
#include "tests/import/model_maker.h"
#include "tests/ir/data.h"

namespace rondo {

using Numbers = std::vector<float>;
using DataPointer = std::shared_ptr<const ir::ConstantData>;

inline constexpr int64_t kSize = 4, kLength = 7, kHeads = 2;

inline void Set(onnx::NodeProto* node, const char* name, const std::vector<int64_t>& values) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  if (values.size() == 1) {
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(values[0]);
    return;
  }
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values) attribute->add_ints(v);
}

// How a model hides later keys, and empty positions, from queries. kCut: a mask one longer than the
// positions, whose last element is cut off. kGathered: two texts, whose masks are read as one row, and rows
// that see nothing give zeros. kFromEnd: nothing is hidden, but biases are the last ones of a table. kSink:
// as kRanges, and the softmax has one more score, which has no position. kGrouped: GroupQueryAttention, which
// gets the number of positions from the shape of the cache; kGroupedMask: from the sum of a mask;
// kGroupedLengths: from an input of its own.
enum class Masks {
  kNone,
  kTriangle,
  kRanges,
  kInput,
  kWindow,
  kCut,
  kGathered,
  kFromEnd,
  kSink,
  kGrouped,
  kGroupedMask,
  kGroupedLengths
};
inline bool IsGrouped(Masks masks) { return masks >= Masks::kGrouped; }

// The places where a model rounds to 8 bits and back (QuantizeLinear, DequantizeLinear), each with its scale;
// 0: no rounding.
struct Quantised {
  float past = 0, present = 0;   // the caches before new rows are appended, and the whole caches afterwards
  float queries = 0, read = 0;   // the operands of the matmul of the scores; `read` also the values
  float scores = 0, masked = 0;  // before and after the mask
  float weights = 0;             // the softmax
  bool bytes = false;            // caches hold 8-bit numbers with the scale `present`
  bool is_signed = false;        // s8 with zero point 3, instead of u8 with zero point 131
  bool linear = false;           // a QLinearMatMul multiplies weights and values, both rounded
};

// x [batch, heads, s, size] is query, key and value; Concat appends keys and values to the caches. With
// `positions`, each row gets the number of its position added.
struct Decoder : ModelMaker {
  // `projected`: keys from the cache are multiplied by a weight where they are read.
  explicit Decoder(Masks masks, bool positions = true, int table = 32, bool projected = false,
                   const Quantised& quantised = {})
      : masks(masks), batch(masks == Masks::kGathered ? 2 : 1), quantised(quantised) {
    const std::string both = "past_sequence_length + rows", size = std::to_string(kSize),
                      heads = std::to_string(kHeads), texts = std::to_string(batch);
    DescribePort(graph()->add_input(), "x", onnx::TensorProto::FLOAT, {texts, heads, "rows", size});
    if (masks == Masks::kInput || masks == Masks::kGroupedMask)
      DescribePort(graph()->add_input(), "attention_mask", onnx::TensorProto::INT64, {"1", both});
    if (masks == Masks::kGathered)
      DescribePort(graph()->add_input(), "attention_mask", onnx::TensorProto::INT64,
                   {texts, "all_positions"});
    for (const char* part : {"key", "value"}) {
      const std::string name = part;
      DescribePort(graph()->add_input(), "past_" + name, CacheType(),
                   {texts, heads, "past_sequence_length", size});
    }
    Ints("zero", {0});
    Ints("one", {1});
    Ints("two", {2});
    Ints("three", {3});
    Scalar("start", 0);
    Scalar("step", 1);
    Node("Shape", {"past_key"}, {"past_shape"});
    Node("Gather", {"past_shape", "two"}, {"past"});
    Node("Shape", {"x"}, {"x_shape"});
    Node("Gather", {"x_shape", "two"}, {"rows"});
    Node("Add", {"past", "rows"}, {"total"});
    Node("Squeeze", {"past"}, {"past_number"});
    Node("Squeeze", {"total"}, {"total_number"});
    Node("Range", {"past_number", "total_number", "step"}, {"places"});
    if (positions) {
      Set(Node("Cast", {"places"}, {"places_f"}), "to", {onnx::TensorProto::FLOAT});
      Node("Unsqueeze", {"places_f", "one"}, {"column"});
      Node("Add", {"x", "column"}, {"now"});
    } else {
      Node("Identity", {"x"}, {"now"});
    }
    if (IsGrouped(masks)) {
      Group(masks);
    } else {
      Join(masks, table, projected);
    }
    Output("y");
    for (const char* name : {"present_key", "present_value"})
      DescribePort(graph()->add_output(), name, CacheType(), {texts, heads, both, size});
  }

  int CacheType() const {
    if (!quantised.bytes) return onnx::TensorProto::FLOAT;
    return quantised.is_signed ? onnx::TensorProto::INT8 : onnx::TensorProto::UINT8;
  }

  // Rounds `from` to 8 bits and back, into `to` if given. Returns `from` itself if the scale is 0.
  std::string Rounded(const std::string& from, float scale, std::string to = "") {
    if (scale == 0) return from;
    if (to.empty()) to = from + "_rounded";
    Floats(to + "_scale", {}, {scale});
    Byte(to + "_zero", quantised.is_signed ? 3 : 131);
    Node("QuantizeLinear", {from, to + "_scale", to + "_zero"}, {to + "_bytes"});
    Node("DequantizeLinear", {to + "_bytes", to + "_scale", to + "_zero"}, {to});
    return to;
  }

  void Byte(const std::string& name, int32_t value) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(quantised.is_signed ? onnx::TensorProto::INT8 : onnx::TensorProto::UINT8);
    t->add_int32_data(value);
  }

  void Join(Masks masks, int table, bool projected) {
    for (const char* part : {"key", "value"}) {
      const std::string name = part, now = name == "key" ? "now" : "x";
      if (quantised.bytes) {  // reading them by `read` gives their numbers
        Rounded(now, quantised.present, name + "_new");
        Set(Node("Concat", {"past_" + name, name + "_new_bytes"}, {"present_" + name}), "axis", {2});
        Node("DequantizeLinear", {"present_" + name, name + "_new_scale", name + "_new_zero"},
             {name + "_read"});
        continue;
      }
      const bool as_it_is = quantised.present == 0;
      const std::string joined = as_it_is ? "present_" + name : name + "_joined";
      Set(Node("Concat", {Rounded("past_" + name, quantised.past), now}, {joined}), "axis", {2});
      if (!as_it_is) Rounded(joined, quantised.present, "present_" + name);
    }
    const std::string keys = quantised.bytes ? "key_read" : "present_key",
                      values = quantised.bytes ? "value_read" : "present_value";
    if (projected) {
      Floats("projection", {kSize, kSize}, Random(kSize * kSize, 7));
      Node("MatMul", {"present_key", "projection"}, {"keys_read"});
    }
    Set(Node("Transpose", {projected ? "keys_read" : keys}, {"turned"}), "perm", {0, 1, 3, 2});
    const std::string products = quantised.scores == 0 ? "scores" : "products";
    Node("MatMul", {Rounded("now", quantised.queries), Rounded("turned", quantised.read)}, {products});
    Rounded(products, quantised.scores, "scores");
    Node("Softmax", {Rounded(Masked(masks, table), quantised.masked)},
         {masks == Masks::kSink ? "of_all" : "softmax"});
    if (masks == Masks::kSink) {
      Node("Slice", {"of_all", "zero", "total", "three"}, {"weights"});
    } else {
      Node("IsNaN", {"softmax"}, {"none_kept"});
      Floats("nothing", {1}, {0});
      Node("Where", {"none_kept", "nothing", "softmax"}, {"weights"});
    }
    const std::string left = Rounded("weights", quantised.weights), right = Rounded(values, quantised.read);
    if (!quantised.linear) {
      Node("MatMul", {left, right}, {"y"});
      return;
    }
    Floats("y_scale", {}, {1.0f / 16});
    Byte("y_zero", quantised.is_signed ? 3 : 131);
    std::vector<std::string> given;
    for (const std::string& side : {left, right})
      for (const char* part : {"_bytes", "_scale", "_zero"}) given.push_back(side + part);
    given.insert(given.end(), {"y_scale", "y_zero"});
    Node("QLinearMatMul", given, {"y_bytes"});
    Node("DequantizeLinear", {"y_bytes", "y_scale", "y_zero"}, {"y"});
  }

  void Group(Masks masks) {
    Ints("in_one", {0, 0, kHeads * kSize});
    for (const char* name : {"now", "x"}) {
      const std::string rows = std::string(name) + "_rows";
      Set(Node("Transpose", {name}, {rows}), "perm", {0, 2, 1, 3});
      Node("Reshape", {rows, "in_one"}, {rows + "_in_one"});
    }
    std::string lengths = "seqlens_k";
    if (masks == Masks::kGroupedLengths) {
      DescribePort(graph()->add_input(), lengths, onnx::TensorProto::INT32, {"1"});
    } else {
      std::string all = "total";
      if (masks == Masks::kGroupedMask) {
        Set(Node("ReduceSum", {"attention_mask", "one"}, {"ones_of_mask"}), "keepdims", {0});
        all = "ones_of_mask";
      }
      Node("Sub", {all, "one"}, {"before_last"});
      Set(Node("Cast", {"before_last"}, {lengths}), "to", {onnx::TensorProto::INT32});
    }
    Set(Node("Cast", {"total_number"}, {"total_i32"}), "to", {onnx::TensorProto::INT32});
    onnx::NodeProto* node = Node("GroupQueryAttention",
                                 {"now_rows_in_one", "now_rows_in_one", "x_rows_in_one", "past_key",
                                  "past_value", lengths, "total_i32"},
                                 {"y", "present_key", "present_value"});
    node->set_domain("com.microsoft");
    Set(node, "num_heads", {kHeads});
    Set(node, "kv_num_heads", {kHeads});
  }

  void Scalar(const std::string& name, int64_t value) {
    onnx::TensorProto* t = graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(onnx::TensorProto::INT64);
    t->add_int64_data(value);
  }

  std::string Masked(Masks masks, int table) {
    if (masks == Masks::kNone) return "scores";
    Floats("least", {1}, {-1e30f});
    if (masks == Masks::kTriangle) {  // rows of a constant triangle, from the first new row
      std::vector<float> triangle;
      for (int i = 0; i < table * table; ++i) triangle.push_back(i % table <= i / table ? 0 : -1e30f);
      Floats("triangle", {table, table}, triangle);
      Node("Slice", {"triangle", "past", "total", "zero"}, {"some"});
      Node("Slice", {"some", "zero", "total", "one"}, {"kept"});
      Node("Add", {"scores", "kept"}, {"masked"});
      return "masked";
    }
    if (masks == Masks::kFromEnd) {
      Floats("biases", {kHeads, 1, table}, Random(static_cast<size_t>(kHeads * table), 3));
      Node("Neg", {"total"}, {"from_end"});
      Ints("end", {INT64_MAX});
      Node("Slice", {"biases", "from_end", "end", "two"}, {"last"});
      Node("Add", {"scores", "last"}, {"masked"});
      return "masked";
    }
    Node("Unsqueeze", {"places", "one"}, {"queries"});
    Node("Range", {"start", "total_number", "step"}, {"keys"});
    if (masks == Masks::kGathered) {
      Node("Shape", {"attention_mask"}, {"mask_shape"});
      Node("Gather", {"mask_shape", "one"}, {"mask_length"});
      Ints("minus_one", {-1});
      Ints("entries", {0, 1});
      Node("Unsqueeze", {"entries", "one"}, {"entry"});
      Node("Mul", {"entry", "mask_length"}, {"first"});
      Node("Add", {"first", "keys"}, {"where"});
      Node("Reshape", {"attention_mask", "minus_one"}, {"in_one"});
      Node("Gather", {"in_one", "where"}, {"kept"});
      Node("Equal", {"kept", "zero"}, {"each_dropped"});
      Ints("one_two", {1, 2});
      Node("Unsqueeze", {"each_dropped", "one_two"}, {"dropped"});
    } else if (masks == Masks::kCut) {
      Node("Add", {"total_number", "step"}, {"one_more"});
      Node("Range", {"start", "one_more", "step"}, {"more_keys"});
      Node("Greater", {"more_keys", "queries"}, {"more_dropped"});
      Node("Slice", {"more_dropped", "zero", "total", "one"}, {"dropped"});
    } else if (masks == Masks::kInput) {
      Node("Equal", {"attention_mask", "zero"}, {"dropped"});
    } else {
      Node("Greater", {"keys", "queries"}, {"dropped"});
    }
    Node("Where", {"dropped", "least", "scores"}, {"masked"});
    if (masks == Masks::kSink) {
      Floats("sinks", {1, kHeads, 1, 1}, {1, -2});
      Ints("sinks_shape", {1, kHeads});
      Ints("each", {1});
      Set(Node("Concat", {"sinks_shape", "rows", "each"}, {"sink_dims"}), "axis", {0});
      Node("Expand", {"sinks", "sink_dims"}, {"sink"});
      Set(Node("Concat", {"masked", "sink"}, {"with_sink"}), "axis", {-1});
      Node("ReduceMax", {"with_sink", "three"}, {"greatest"});
      Node("Sub", {"with_sink", "greatest"}, {"shifted"});
      return "shifted";
    }
    if (masks != Masks::kWindow) return "masked";
    Node("Sub", {"queries", "keys"}, {"age"});
    Node("Greater", {"age", "two"}, {"old"});
    Node("Where", {"old", "least", "masked"}, {"windowed"});
    return "windowed";
  }

  const Masks masks;
  const int64_t batch;
  const Quantised quantised;
};

inline ImportOptions Rows(int64_t rows) {
  ImportOptions options;
  options.symbols["rows"] = rows;
  return options;
}

inline Result<ir::Graph> Fixed(Decoder& m, int64_t rows) {
  FixedCaches caches;
  RONDO_ASSIGN_OR_RETURN(ir::Graph graph,
                         ImportWithFixedCaches(m.Make(), Rows(rows), kLength, {}, nullptr, &caches));
  graph.name = "main";
  passes::PassOptions options;
  options.fixed_caches = caches.inputs;
  for (const passes::PassFunction pass :
       {passes::LowerQuantised, passes::PairState, passes::RecogniseUpdates, passes::RecogniseAttention,
        passes::RecogniseCausal, passes::LimitToCached}) {
    RONDO_RETURN_IF_ERROR(pass(&graph, options).status());
    EXPECT_EQ(ir::Validate(graph), "");
  }
  EXPECT_GE(graph.states.size(), 2u);
  return graph;
}

// Converts `data` from f32 to a type of floats; other data stay.
inline DataPointer As(DType dtype, const DataPointer& data) {
  if (data->dtype != DType::kF32 || dtype == DType::kF32) return data;
  const int64_t count = data->shape.elements();
  std::vector<uint8_t> bytes(static_cast<size_t>(count * ByteSize(dtype)));
  for (int64_t i = 0; i < count; ++i)
    scalar::Store(dtype, bytes.data(), i, scalar::Load<float>(DType::kF32, data->bytes.data(), i));
  return ir::ConstantData::Own(dtype, data->shape, std::move(bytes));
}

// Compares a run of `rows` rows with `past` cached positions in the model's form and in the fixed one. The
// fixed cache holds large numbers, or `behind`, at empty positions.
inline void ExpectSameRun(Decoder& m, const ir::Graph& fixed, int64_t past, int64_t rows,
                          float behind = 1e3f) {
  ImportOptions options = Rows(rows);
  options.symbols["past_sequence_length"] = past;
  if (m.batch == 2) options.symbols["all_positions"] = past + rows;
  auto growing = ImportModel(m.Make(), options, nullptr);
  ASSERT_TRUE(growing.ok()) << growing.status().message();
  const auto cache_of = [&](uint32_t seed, int64_t length) {
    Numbers cache(static_cast<size_t>(m.batch * kHeads * length * kSize), behind);
    for (int64_t h = 0; h < m.batch * kHeads; ++h) {
      Numbers held = Random(static_cast<size_t>(past * kSize), seed + static_cast<uint32_t>(h));
      const float each = m.quantised.present != 0 ? m.quantised.present : 1.0f / 64;  // also exact in f16
      for (float& x : held) {
        x = std::round(x / each);
        x = m.quantised.bytes ? (m.quantised.is_signed ? 3 : 131) + x : x * each;
      }
      std::copy(held.begin(), held.end(), cache.begin() + h * length * kSize);
    }
    const Shape shape({m.batch, kHeads, length, kSize});
    if (!m.quantised.bytes) return Data(shape, cache);
    std::vector<uint8_t> bytes;
    for (float x : cache) bytes.push_back(static_cast<uint8_t>(x == behind ? 200 : static_cast<int>(x)));
    return ir::ConstantData::Own(m.quantised.is_signed ? DType::kI8 : DType::kU8, shape, bytes);
  };
  const auto inputs_of = [&](const ir::Graph& graph, int64_t length, int64_t total) {
    ir::Values inputs;
    for (const ir::GraphInput& input : graph.inputs) {
      if (input.name == "x") {
        inputs.push_back(Data(Shape({m.batch, kHeads, rows, kSize}),
                              Random(static_cast<size_t>(m.batch * kHeads * rows * kSize), 9)));
      } else if (input.name == "attention_mask") {
        std::vector<int64_t> mask(static_cast<size_t>(m.batch * total));
        const bool padded = past != 0 && !IsGrouped(m.masks);
        for (int64_t j = padded ? 1 : 0; j < past + rows; ++j) mask[static_cast<size_t>(j)] = 1;
        for (int64_t j = 0; m.batch == 2 && j < past + rows; ++j)  // its first three are padding
          mask[static_cast<size_t>(total + j)] = j >= std::min<int64_t>(3, past);
        inputs.push_back(Data(Shape({m.batch, total}), mask));
      } else if (input.name == "past_sequence_length") {
        inputs.push_back(Data(Shape({1}), std::vector<int64_t>{past}));
      } else if (input.name == "text_length") {  // the initial value of states
        inputs.push_back(Data(Shape({1}), std::vector<int64_t>{0}));
      } else if (input.name == "seqlens_k") {
        const auto last = static_cast<int32_t>(past + rows - 1);
        std::vector<uint8_t> bytes(sizeof(last));
        std::memcpy(bytes.data(), &last, bytes.size());
        inputs.push_back(ir::ConstantData::Own(DType::kI32, Shape({1}), bytes));
      } else {
        const DataPointer cache = cache_of(input.name == "past_key" ? 20 : 30, length);
        inputs.push_back(As(graph.node(input.node).dtype, cache));
      }
    }
    return inputs;
  };
  const auto expected = ir::EvaluateGraph(*growing, inputs_of(*growing, past, past + rows));
  const auto got = ir::EvaluateGraph(fixed, inputs_of(fixed, kLength, kLength));
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(got.ok()) << got.status().message();
  const auto at = [](const DataPointer& data, int64_t i) {
    return scalar::Load<float>(data->dtype, data->bytes.data(), i);
  };
  for (int64_t i = 0; i < (*expected)[0]->shape.elements(); ++i)
    ASSERT_NEAR(at((*got)[0], i), at((*expected)[0], i), 1e-4) << "y[" << i << "] with " << past << " cached";
  for (size_t cache = 1; cache < 3; ++cache) {
    for (int64_t i = 0; i < (*expected)[cache]->shape.elements(); ++i) {
      const int64_t head = i / ((past + rows) * kSize), inside = i % ((past + rows) * kSize);
      ASSERT_EQ(at((*got)[cache], head * kLength * kSize + inside), at((*expected)[cache], i));
    }
  }
  for (size_t more = 3; more < expected->size(); ++more) {  // one element per position, in the last dim
    if (fixed.outputs[more].name.rfind("present", 0) == 0) continue;
    const int64_t total = past + rows;
    const DataPointer &one = (*got)[more], &other = (*expected)[more];
    ASSERT_EQ(one->dtype, other->dtype);
    const auto number = [](const DataPointer& data, int64_t i) {
      return scalar::Load<double>(data->dtype, data->bytes.data(), i);
    };
    ASSERT_EQ(one->shape.elements() / kLength, other->shape.elements() / total);
    for (int64_t i = 0; i < one->shape.elements(); ++i) {
      const int64_t place = i % kLength;
      const double want = place < total ? number(other, i / kLength * total + place) : 0;
      if (std::isinf(want)) {
        ASSERT_EQ(number(one, i), want);
      } else {
        ASSERT_NEAR(number(one, i), want, 1e-4)
            << "output " << more << ", " << i << " with " << past << " cached";
      }
    }
  }
}

}  // namespace rondo
