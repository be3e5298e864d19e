#include "tests/e2e/plan_files.h"

#include "compiler/compile.h"
#include "tests/e2e/bucket_models.h"

namespace rondo {

bool WriteBucketPlan(const std::string& path) {
  EncoderModel(true).Write(path + ".onnx");
  CompileOptions options;
  options.models = {{"main", path + ".onnx"}};
  options.shapes = {{"batch", {1, 4, 8}}};
  options.lengths = {{"sequence", {16, 32, 64}}};
  return Compile(options, path).ok();
}

bool WriteReversedPlan(const std::string& path, const std::vector<int64_t>& dims) {
  DynamicModel model;
  model.Input("x", dims);
  std::vector<int64_t> reversed;
  for (size_t d = dims.size(); d > 0; --d) reversed.push_back(static_cast<int64_t>(d) - 1);
  model.Add("Transpose", {"x"}, "turned");
  model.With("perm", reversed);
  model.Add("Neg", {"turned"}, "y");
  model.Output("y");
  model.Write(path + ".onnx");
  CompileOptions options;
  options.models = {{"main", path + ".onnx"}};
  return Compile(options, path).ok();
}

}  // namespace rondo
