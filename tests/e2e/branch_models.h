// Models with Ifs that are decided at run time, made and run in a few lines.
#pragma once

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/harness.h"
#include "tests/import/model_maker.h"
#include "tests/temporary_folder.h"

namespace rondo {

constexpr int kInt64 = onnx::TensorProto::INT64, kBool = onnx::TensorProto::BOOL;

inline void SetInt(onnx::NodeProto* node, const char* name, int64_t value) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::INT);
  a->set_i(value);
}

inline onnx::GraphProto* Subgraph(onnx::NodeProto* node, const char* name) {
  onnx::AttributeProto* a = node->add_attribute();
  a->set_name(name);
  a->set_type(onnx::AttributeProto::GRAPH);
  a->mutable_g()->set_name(name);
  return a->mutable_g();
}

using Branch =
    std::function<void(onnx::GraphProto*)>;  // adds nodes that compute the value with the branch's name

// Adds y = condition ? yes : no to `graph`. The branches make values named y + "_yes" and y + "_no".
template <typename Owner>
void If(Owner* graph, const std::string& condition, const std::string& y, const Branch& yes,
        const Branch& no) {
  onnx::NodeProto* node = ModelMaker::Node(graph, "If", {condition}, {y});
  onnx::GraphProto* then_graph = Subgraph(node, "then_branch");
  yes(then_graph);
  then_graph->add_output()->set_name(y + "_yes");
  onnx::GraphProto* else_graph = Subgraph(node, "else_branch");
  no(else_graph);
  else_graph->add_output()->set_name(y + "_no");
}

inline Branch Of(const std::string& op, const std::vector<std::string>& inputs, const std::string& y) {
  return [=](onnx::GraphProto* g) { ModelMaker::Node(g, op, inputs, {y}); };
}

// Compiles and arms the model on a GPU's driver, or else on the host.
inline std::unique_ptr<LiveModel> Live(const ModelMaker& m, Driver* gpu = nullptr,
                                       const std::vector<NodeAnnotation>& annotations = {},
                                       Precision precision = Precision::kF32) {
  static const TemporaryFolder folder;
  static int made = 0;
  CompileOptions options;
  options.models = {{"main", folder.File("m" + std::to_string(++made) + ".onnx")}};
  std::ofstream(options.models[0].path, std::ios::binary) << m.proto.SerializeAsString();
  options.annotations = annotations;
  options.precision = precision;
  if (gpu == nullptr) return std::make_unique<LiveModel>(options, HostOptions());
  options.targets = *ParseTargets("cuda:sm_90a");
  return std::make_unique<LiveModel>(options, *gpu);
}

struct Ran {
  Status status;
  std::vector<float> y;
};

// Runs the model. `given`: numbers by input, which are converted to bools, i64 or floats by the port's type.
inline Ran RunWith(LiveModel& live, const std::map<std::string, std::vector<double>>& given) {
  LiveModel::Buffers buffers = live.MakeBuffers(0);
  const auto& ports = live.data().programs[0].inputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    const DType type = live.data().buffers[ports[i].buffer].dtype;
    std::vector<uint8_t>& bytes = buffers.input_bytes[i];
    const std::vector<double>& values = given.at(std::string(ports[i].name));
    for (size_t k = 0; k < bytes.size() / static_cast<size_t>(ByteSize(type)); ++k) {
      const double v = values[k % values.size()];
      const float f = static_cast<float>(v);
      const int64_t n = static_cast<int64_t>(v);
      const int32_t small = static_cast<int32_t>(v);
      if (type == DType::kF32) std::memcpy(&bytes[4 * k], &f, 4);
      if (type == DType::kI64) std::memcpy(&bytes[8 * k], &n, 8);
      if (type == DType::kI32) std::memcpy(&bytes[4 * k], &small, 4);
      if (type == DType::kBool) bytes[k] = v != 0;
    }
  }
  Ran ran;
  ran.status = live.session().Run(0, buffers.inputs, buffers.outputs, {});
  ran.y.resize(buffers.output_bytes[0].size() / 4);
  std::memcpy(ran.y.data(), buffers.output_bytes[0].data(), 4 * ran.y.size());
  return ran;
}

}  // namespace rondo
