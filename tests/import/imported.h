// Imports a small model and evaluates it: for tests of whole models.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ir/evaluate.h"
#include "core/scalar.h"
#include "tests/import/model_maker.h"

namespace rondo {

inline Result<ir::Graph> Import(ModelMaker& m, const ImportOptions& options = {},
                                ImportReport* report = nullptr) {
  return ImportModel(m.Make(), options, report);
}

// The first output as doubles, for one f32 input.
inline std::vector<double> Evaluate(const ir::Graph& graph, const std::vector<float>& input) {
  const ir::Node& x = graph.node(graph.inputs[0].node);
  std::vector<uint8_t> bytes(input.size() * 4);
  std::memcpy(bytes.data(), input.data(), bytes.size());
  auto out = ir::EvaluateGraph(graph, {ir::ConstantData::Own(x.dtype, x.shape, bytes)});
  EXPECT_TRUE(out.ok()) << out.status().message();
  std::vector<double> values;
  for (int64_t i = 0; out.ok() && i < (*out)[0]->shape.elements(); ++i) {
    values.push_back(scalar::Load<double>((*out)[0]->dtype, (*out)[0]->bytes.data(), i));
  }
  return values;
}

inline void SetInt(onnx::NodeProto* node, const char* name, int64_t value) {
  onnx::AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

inline int LiveNodes(const ir::Graph& graph, ir::Op op) {
  int count = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id) count += !graph.node(id).dead && graph.node(id).op == op;
  return count;
}

}  // namespace rondo
