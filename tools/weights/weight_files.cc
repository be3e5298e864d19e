#include "tools/weights/weight_files.h"

#include <set>

#include "compiler/model_weights.h"
#include "formats/tensor/safetensors.h"

namespace rondo::tools {
namespace {

Result<WeightFile> FromModel(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(ModelWeights model, ReadModelWeights(path));
  return WeightFile{std::move(model.values), true, std::move(model.keep)};
}

Result<WeightFile> FromSafetensors(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, ReadSafetensors(path));
  const auto kept = std::make_shared<const std::vector<Tensor>>(std::move(tensors));
  WeightFile file;
  file.keep.push_back(kept);
  for (const Tensor& tensor : *kept)
    file.values.push_back(
        {tensor.name, tensor.dtype, tensor.shape, {tensor.bytes.data(), tensor.bytes.size()}});
  return file;
}

}  // namespace

Result<WeightFile> ReadWeightFile(const std::string& path) {
  const auto ends = [&](std::string_view ending) {
    return path.size() > ending.size() &&
           path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
  };
  if (!ends(".onnx") && !ends(".safetensors"))
    return Status::Error(Code::kInvalidArgument, "%s ends with neither .safetensors nor .onnx", path.c_str());
  Result<WeightFile> file = ends(".onnx") ? FromModel(path) : FromSafetensors(path);
  if (!file.ok()) return file.status().At("%s", path.c_str());
  std::set<std::string_view> names;
  for (const WeightValue& value : file->values) {
    if (!names.insert(value.name).second)
      return Status::Error(Code::kCorrupt, "%s has two weights \"%s\"", path.c_str(), value.name.c_str());
  }
  return file;
}

}  // namespace rondo::tools
