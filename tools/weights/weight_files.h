// Weights from files: safetensors, or the initializers of an ONNX model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "formats/plan/live_weights.h"

namespace rondo::tools {

struct WeightFile {
  std::vector<WeightValue> values;  // names differ
  bool is_model = false;            // has all that the model has
  std::vector<std::shared_ptr<const void>> keep;
};

// By the file's ending, .onnx or .safetensors.
Result<WeightFile> ReadWeightFile(const std::string& path);

}  // namespace rondo::tools
