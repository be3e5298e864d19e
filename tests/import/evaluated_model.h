// Evaluates models of a few nodes with numbers, for tests of operators' meaning.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/evaluate.h"
#include "tests/import/model_maker.h"

namespace rondo {

using Numbers = std::vector<float>;

inline Numbers Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Numbers numbers(count);
  for (float& x : numbers) x = normal(random);
  return numbers;
}

template <typename T>
std::shared_ptr<const ir::ConstantData> Data(DType dtype, const Shape& shape, const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return ir::ConstantData::Own(dtype, shape, bytes);
}

inline onnx::AttributeProto* Attribute(onnx::NodeProto* node, const char* name,
                                       onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}
inline void Set(onnx::NodeProto* node, const char* name, int64_t value) {
  Attribute(node, name, onnx::AttributeProto::INT)->set_i(value);
}
inline void Set(onnx::NodeProto* node, const char* name, float value) {
  Attribute(node, name, onnx::AttributeProto::FLOAT)->set_f(value);
}
inline void Set(onnx::NodeProto* node, const char* name, const std::string& value) {
  Attribute(node, name, onnx::AttributeProto::STRING)->set_s(value);
}

inline onnx::NodeProto* Microsoft(ModelMaker& m, const std::string& op,
                                  const std::vector<std::string>& inputs,
                                  const std::vector<std::string>& outputs) {
  onnx::NodeProto* node = m.Node(op, inputs, outputs);
  node->set_domain("com.microsoft");
  return node;
}

inline void Bytes(ModelMaker& m, const std::string& name, const std::vector<int64_t>& dims,
                  const std::string& bytes, int type = onnx::TensorProto::UINT8) {
  onnx::TensorProto* t = m.graph()->add_initializer();
  t->set_name(name);
  t->set_data_type(type);
  for (int64_t d : dims) t->add_dims(d);
  t->set_raw_data(bytes);
}

// The elements of each output, as floats.
inline std::vector<Numbers> Evaluate(ModelMaker& m, const ir::Values& inputs) {
  auto graph = ImportModel(m.Make(), {}, nullptr);
  if (!graph.ok()) {
    ADD_FAILURE() << graph.status().message();
    return std::vector<Numbers>(3);
  }
  auto out = ir::EvaluateGraph(*graph, inputs);
  if (!out.ok()) {
    ADD_FAILURE() << out.status().message();
    return std::vector<Numbers>(3);
  }
  std::vector<Numbers> all;
  for (const auto& value : *out) {
    Numbers numbers(static_cast<size_t>(value->shape.elements()));
    std::memcpy(numbers.data(), value->bytes.data(), value->bytes.size());
    all.push_back(numbers);
  }
  return all;
}

inline bool HasPacked(ModelMaker& m) {
  const auto graph = ImportModel(m.Make(), {}, nullptr);
  for (ir::NodeId id = 0; id < graph->size(); ++id) {
    const ir::Node& node = graph->node(id);
    if (!node.dead && node.op == ir::Op::kConstant && node.As<ir::ConstantAttrs>().data->packed != nullptr)
      return true;
  }
  return false;
}

inline void ExpectNear(const Numbers& got, const Numbers& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << "at " << i;
}

}  // namespace rondo
