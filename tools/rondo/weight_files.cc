#include "tools/rondo/weight_files.h"

#include <cstring>
#include <map>
#include <set>

#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/reader.h"
#include "formats/onnx/tensor.h"
#include "formats/plan/reader.h"
#include "formats/plan/writer.h"
#include "formats/tensor/safetensors.h"
#include "runtime/verify/value_names.h"

namespace rondo::tools {
namespace {

Result<WeightFile> FromModel(const std::string& path) {
  RONDO_ASSIGN_OR_RETURN(const std::shared_ptr<onnx::Model> model, onnx::Model::Open(path));
  WeightFile file;
  file.is_model = true;
  file.keep.push_back(model);
  for (const onnx::TensorProto& tensor : model->proto().graph().initializer()) {
    if (!onnx::StoredTypeOf(tensor.data_type()).ok()) continue;
    Result<onnx::TensorValue> value = model->Load(tensor, false);
    if (!value.ok()) return value.status();
    file.keep.push_back(value->owner);
    file.values.push_back({tensor.name(), value->dtype, value->shape, value->bytes});
  }
  return file;
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

// The plan's live weights by name.
std::multimap<std::string_view, uint32_t> LiveWeights(const PlanData& plan) {
  std::multimap<std::string_view, uint32_t> live;
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    if (const std::string_view name = LiveWeightOf(plan, b); !name.empty()) live.emplace(name, b);
  }
  return live;
}

Status NoSuchWeight(const std::multimap<std::string_view, uint32_t>& live, const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& [one, buffer] : live) known.push_back(one);
  const std::string near = NearestNames(name, known);
  return Status::Error(Code::kInvalidArgument, "the plan has no weight \"%s\" that can be replaced%s%s",
                       name.c_str(), near.empty() ? "" : "; nearest: ", near.c_str());
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

Status ReplaceWeights(const std::string& path, const WeightFile& file, const std::string& output,
                      size_t* replaced) {
  Arena arena;
  RONDO_ASSIGN_OR_RETURN(PlanFile plan, LoadPlanFile(path.c_str(), {}, arena));
  const std::multimap<std::string_view, uint32_t> live = LiveWeights(plan.data);
  if (live.empty()) {
    return Status::Error(Code::kFailedPrecondition,
                         "no weight of %s can be replaced: compile the model with --live-weights",
                         path.c_str());
  }
  if (!plan.data.weights_file.empty()) {
    return Status::Error(
        Code::kUnsupported,
        "%s keeps its weights in the file %s, which other plans may share: compile the model "
        "without --weights-file",
        path.c_str(), std::string(plan.data.weights_file).c_str());
  }
  std::map<uint32_t, std::vector<uint8_t>> bytes;  // by buffer
  for (const WeightValue& value : file.values) {
    const auto [first, end] = live.equal_range(value.name);
    if (first == end) {
      // Of a model, what no step reads, too, has a name that the plan does not know.
      if (file.is_model && IsLiveWeight(value.dtype, value.shape)) continue;
      RONDO_RETURN_IF_ERROR(file.is_model ? CheckFixedWeight(plan.data, value)
                                          : NoSuchWeight(live, value.name));
      continue;
    }
    ++*replaced;
    for (auto weight = first; weight != end; ++weight) {
      const Buffer& buffer = plan.data.buffers[weight->second];
      std::vector<uint8_t>& to = bytes[weight->second];
      to.resize(buffer.bytes);
      RONDO_RETURN_IF_ERROR(ConvertWeight(value, buffer, to.data()));
    }
  }
  if (*replaced == 0)
    return Status::Error(Code::kInvalidArgument, "none of its weights is one of the plan's");
  const Result<Span<const uint8_t>> old = plan.weights.Map();
  if (!old.ok()) return old.status();
  const FillWeight fill = [&](uint32_t buffer, uint64_t first, uint64_t count, uint8_t* out) {
    const auto replacement = bytes.find(buffer);
    const uint8_t* from = replacement != bytes.end() ? replacement->second.data()
                                                     : old->data() + plan.data.buffers[buffer].file_offset;
    std::memcpy(out, from + first, count);
    return Status::Ok();
  };
  return WritePlan(plan.data, fill, {output});
}

}  // namespace rondo::tools
