#include "compiler/model_weights.h"

#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/reader.h"
#include "formats/onnx/tensor.h"

namespace rondo {

Result<ModelWeights> ReadModelWeights(const std::string& path,
                                      const std::vector<std::string>& external_data) {
  RONDO_ASSIGN_OR_RETURN(const std::shared_ptr<onnx::Model> model, onnx::Model::Open(path, external_data));
  const onnx::GraphProto& graph = model->proto().graph();
  ModelWeights weights;
  weights.keep.push_back(model);
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (!onnx::DTypeOf(tensor.data_type()).ok()) {
      const auto message = std::make_shared<const std::string>(tensor.SerializeAsString());
      weights.keep.push_back(message);
      weights.values.push_back({tensor.name(),
                                DType::kU8,
                                {static_cast<int64_t>(message->size())},
                                {reinterpret_cast<const uint8_t*>(message->data()), message->size()}});
      continue;
    }
    RONDO_ASSIGN_OR_RETURN(const onnx::TensorValue value, model->Load(tensor, false));
    weights.keep.push_back(value.owner);
    weights.values.push_back({tensor.name(), value.dtype, value.shape, value.bytes});
  }
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& input : node.input())
      weights.readers.try_emplace(input, node.op_type() + " \"" + node.name() + "\"");
  }
  return weights;
}

}  // namespace rondo
