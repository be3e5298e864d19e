// OnnxRuntime: the values of an ONNX model as ONNX Runtime computes them, through a Python that has it.
//
// Each question starts a process (onnxruntime_values.py), which runs the model without optimisation. Files go
// through a folder that the destructor removes.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

extern const char* const kOnnxRuntimeScript;

class OnnxRuntime {
 public:
  // `inputs`: all inputs of the model. kIo if no folder can be made.
  static Result<OnnxRuntime> Open(const std::string& python, const std::string& model,
                                  const std::vector<Tensor>& inputs);
  OnnxRuntime(OnnxRuntime&& other) noexcept
      : folder_(std::exchange(other.folder_, "")),
        python_(other.python_),
        model_(other.model_),
        inputs_(other.inputs_) {}
  ~OnnxRuntime();

  // Those of `names` that the model computes, in any order. kUnsupported, with the process's last output, if
  // it fails.
  Result<std::vector<Tensor>> Values(const std::vector<std::string>& names);
  // ONNX Runtime's version; "" before the first values.
  const std::string& version() const { return version_; }

 private:
  OnnxRuntime() = default;
  std::string folder_, python_, model_, version_;
  std::vector<std::pair<std::string, std::string>> inputs_;  // names and files
};

}  // namespace rondo::tools
