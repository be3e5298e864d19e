// Models with different weights, and files whose weights do not fit.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/folders.h"
#include "tests/import/model_maker.h"

namespace rondo {

inline std::string Fixture(const std::string& name) {
  return SourceFolder() + "/tests/data/fixtures/" + name + "/model.onnx";
}

inline std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void Write(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

// A file with `header` and `bytes` bytes of data, each of them `byte`.
inline std::string Safetensors(const std::string& header, size_t bytes, char byte = 0) {
  std::string file(8, '\0');
  const uint64_t size = header.size();
  std::memcpy(file.data(), &size, sizeof(size));
  return file + header + std::string(bytes, byte);
}

inline std::string Entry(const std::string& name, const std::string& type, const std::string& shape,
                         size_t bytes, size_t begin = 0) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(begin + bytes) + "]}";
}

// The model with every float weight of more than 8 elements changed.
inline void WriteTwin(const std::string& from, const std::string& to) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(Contents(from)));
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    std::string* raw = tensor.mutable_raw_data();
    if (tensor.data_type() != onnx::TensorProto::FLOAT || raw->size() <= 8 * sizeof(float)) continue;
    for (size_t at = 0; at < raw->size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, raw->data() + at, sizeof(value));
      value = value * 0.875f + 0.001f;
      std::memcpy(raw->data() + at, &value, sizeof(value));
    }
  }
  Write(to, model.SerializeAsString());
}

// y = (x + a) * b * scale, where a and b hold the same number 16 times.
inline void WriteTwoWeights(const std::string& to, float a, float b, float scale) {
  ModelMaker m;
  m.Input("x", {16});
  const std::vector<float> as(16, a), bs(16, b);
  for (const auto& [name, values] : {std::pair("a", as), {"b", bs}}) {
    onnx::TensorProto* tensor = m.graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_dims(16);
    tensor->set_raw_data(values.data(), values.size() * sizeof(float));
  }
  onnx::TensorProto* tensor = m.graph()->add_initializer();
  tensor->set_name("scale");
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->set_raw_data(&scale, sizeof(scale));
  m.Node("Add", {"x", "a"}, {"s"});
  m.Node("Mul", {"s", "b"}, {"p"});
  m.Node("Mul", {"p", "scale"}, {"y"});
  m.Output("y");
  Write(to, m.proto.SerializeAsString());
}

// A file that does not fit the weights of WriteTwoWeights, and words of the expected error.
struct Misfit {
  const char* name;
  std::string contents;
  const char* says;
};

inline std::vector<Misfit> Misfits() {
  const std::string fits = Entry("a", "F32", "[16]", 64);
  return {
      {"unknown.safetensors", Safetensors("{" + Entry("c", "F32", "[16]", 64) + "}", 64), "no weight \"c\""},
      {"module.safetensors", Safetensors("{" + Entry("m.a", "F32", "[16]", 64) + "}", 64),
       "no weight \"m.a\""},
      {"fixed.safetensors", Safetensors("{" + Entry("scale", "F32", "[]", 4) + "}", 4),
       "no weight \"scale\""},
      {"both.safetensors", Safetensors("{" + fits + "," + Entry("c", "F32", "[16]", 64, 64) + "}", 128),
       "\"c\""},
      {"longer.safetensors", Safetensors("{" + Entry("a", "F32", "[17]", 68) + "}", 68), "[17]"},
      {"shorter.safetensors", Safetensors("{" + Entry("a", "F32", "[15]", 60) + "}", 60), "[15]"},
      {"square.safetensors", Safetensors("{" + Entry("a", "F32", "[4,4]", 64) + "}", 64), "[4, 4]"},
      {"ranked.safetensors", Safetensors("{" + Entry("a", "F32", "[1,16]", 64) + "}", 64), "[1, 16]"},
      {"f64.safetensors", Safetensors("{" + Entry("a", "F64", "[16]", 128) + "}", 128), "f64"},
      {"f16.safetensors", Safetensors("{" + Entry("a", "F16", "[16]", 32) + "}", 32), "f16"},
      {"bf16.safetensors", Safetensors("{" + Entry("a", "BF16", "[16]", 32) + "}", 32), "bf16"},
      {"i32.safetensors", Safetensors("{" + Entry("a", "I32", "[16]", 64) + "}", 64), "i32"},
      {"cut.safetensors", Safetensors("{" + fits + "}", 60), ""},
      {"header.safetensors", Safetensors("{" + fits, 64), ""},
      {"overlap.safetensors", Safetensors("{" + fits + "," + Entry("b", "F32", "[16]", 64, 32) + "}", 96),
       ""},
      {"range.safetensors", Safetensors("{" + Entry("a", "F32", "[16]", 60) + "}", 60), ""},
      {"none.safetensors", Safetensors("{}", 0), "none of its weights"},
      {"empty.safetensors", "", ""},
      {"noise.onnx", std::string(100, 'x'), ""},
      {"weights.bin", Safetensors("{" + fits + "}", 64), "neither .safetensors nor .onnx"}};
}

}  // namespace rondo
