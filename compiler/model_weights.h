// ReadModelWeights: the initializers of an ONNX model, for whoever compares or exchanges them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "formats/plan/live_weights.h"

namespace rondo {

struct ModelWeights {
  // Of the model's own graph. One of a type that plans have no weights of (FP8, 4 bits) is the bytes of its
  // message.
  std::vector<WeightValue> values;
  std::map<std::string, std::string> readers;  // by initializer: the first node that reads it, `Op "node"`
  std::vector<std::shared_ptr<const void>> keep;
};

// `external_data`: as CompileOptions::external_data.
Result<ModelWeights> ReadModelWeights(const std::string& path,
                                      const std::vector<std::string>& external_data = {});

}  // namespace rondo
