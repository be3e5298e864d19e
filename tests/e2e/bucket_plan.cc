#include "tests/e2e/bucket_plan.h"

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

}  // namespace rondo
