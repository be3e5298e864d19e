// Weights from files: safetensors, or the initializers of an ONNX model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "formats/plan/live_weights.h"

namespace rondo::tools {

struct WeightFile {
  std::vector<WeightValue> values;  // with distinct names
  bool is_model = false;            // the file is an ONNX model, with all its initializers
  std::vector<std::shared_ptr<const void>> keep;
};

// Reads a file by its ending, .onnx or .safetensors.
Result<WeightFile> ReadWeightFile(const std::string& path);

}  // namespace rondo::tools
