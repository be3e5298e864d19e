// Models for tests of rondo generate. Each gives logits of 60 words, greatest at a number that it computes.
#pragma once

#include <string>
#include <vector>

#include "tests/import/model_maker.h"

namespace rondo {

inline void TokenIds(ModelMaker* m, const std::vector<int64_t>& dims) {
  m->Input("input_ids", dims, onnx::TensorProto::INT64);
}

inline void CastToFloat(ModelMaker* m, const std::string& from, const std::string& to) {
  onnx::AttributeProto* type = m->Node("Cast", {from}, {to})->add_attribute();
  type->set_name("to");
  type->set_type(onnx::AttributeProto::INT);
  type->set_i(onnx::TensorProto::FLOAT);
}

// Computes `logits` [..., 60], greatest where the last index is the number `word`: -(index - word)^2.
inline void PeakAt(ModelMaker* m, const std::string& word, const std::string& logits,
                   const std::vector<int64_t>& dims = {1, 60}) {
  int64_t elements = 1;
  for (const int64_t dim : dims) elements *= dim;
  std::vector<float> numbers;
  for (int64_t i = 0; i < elements; ++i) numbers.push_back(static_cast<float>(i % 60));
  m->Floats("numbers", dims, numbers);
  m->Node("Sub", {"numbers", word}, {"apart"});
  m->Node("Mul", {"apart", "apart"}, {"square"});
  m->Node("Neg", {"square"}, {logits});
}

// Each token is larger than the one before by the adapter's number. A mask gives the text's
// length. With `nan`, all logits but the greatest are NaN.
inline std::string AdaptedModel(int64_t length, bool nan = false) {
  ModelMaker m;
  m.Input("words", {1, length}, onnx::TensorProto::INT64);
  m.Input("attention_mask", {1, 50}, onnx::TensorProto::INT64);
  m.Input("adapter", {1}, onnx::TensorProto::INT64);
  m.Input("h", {1, 50, 1});
  m.Floats("none", {1}, {0});
  m.Node("Mul", {"h", "none"}, {"h_out"});
  m.Ints("axis", {1});
  m.Node("ReduceMax", {"words", "axis"}, {"greatest"});
  m.Node("Add", {"greatest", "adapter"}, {"sum"});
  m.Node("ReduceMax", {"attention_mask", "axis"}, {"read"});
  m.Node("Mul", {"sum", "read"}, {"next"});
  CastToFloat(&m, "next", "count");
  PeakAt(&m, "count", "less");
  m.Node(nan ? "Sqrt" : "Identity", {"less"}, {"scores"});
  m.Output("scores");
  m.Output("h_out");
  return m.proto.SerializeAsString();
}

}  // namespace rondo
