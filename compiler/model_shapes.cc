#include "compiler/model_shapes.h"

#include <set>

#include "formats/onnx/onnx.pb.h"

namespace rondo {

Status SplitShapes(const onnx::Model& model, const std::map<std::string, std::vector<int64_t>>& shapes,
                   ImportOptions* options, std::vector<std::string>* found) {
  std::set<std::string> inputs, symbols;
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    inputs.insert(input.name());
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (dim.has_dim_param()) symbols.insert(dim.dim_param());
    }
  }
  for (const auto& [name, dims] : shapes) {
    for (int64_t dim : dims) {
      if (dim >= 1) continue;
      return Status::Error(Code::kInvalidArgument, "shape \"%s\": dimension %lld is below 1", name.c_str(),
                           static_cast<long long>(dim));
    }
    const bool is_input = inputs.count(name) != 0, is_symbol = symbols.count(name) != 0;
    if (!is_input && !is_symbol) continue;
    found->push_back(name);
    if (is_input) {
      options->input_shapes[name] = dims;
    } else if (dims.size() == 1) {
      options->symbols[name] = dims[0];
    } else {
      return Status::Error(Code::kInvalidArgument,
                           "shape \"%s\" is one dimension of the model's inputs; %zu values are given",
                           name.c_str(), dims.size());
    }
  }
  return Status::Ok();
}

}  // namespace rondo
