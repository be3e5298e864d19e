#include "compiler/bind_live_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/reader.h"
#include "formats/onnx/tensor.h"
#include "formats/plan/live_weights.h"
#include "formats/plan/writer.h"

namespace rondo {
namespace {

struct ModelWeights {
  std::map<std::string, WeightValue> live;
  std::set<std::string> fixed;  // FixedWeightNote
  std::vector<std::shared_ptr<const void>> keep;
};

Status ReadWeights(const std::string& path, const CompileOptions& options, ModelWeights* weights) {
  RONDO_ASSIGN_OR_RETURN(const std::shared_ptr<onnx::Model> model,
                         onnx::Model::Open(path, options.external_data));
  weights->keep.push_back(model);
  for (const onnx::TensorProto& tensor : model->proto().graph().initializer()) {
    if (!onnx::StoredTypeOf(tensor.data_type()).ok()) continue;  // of few bits: no live weight
    RONDO_ASSIGN_OR_RETURN(onnx::TensorValue read, model->Load(tensor, false));
    weights->keep.push_back(read.owner);
    const WeightValue value{tensor.name(), read.dtype, read.shape, read.bytes};
    if (!IsLiveWeight(value.dtype, value.shape)) {
      weights->fixed.insert(FixedWeightNote(value));
      continue;
    }
    const auto [known, added] = weights->live.try_emplace(value.name, value);
    if (added) continue;
    const WeightValue& other = known->second;
    if (other.dtype != value.dtype || !(other.shape == value.shape) ||
        !std::equal(value.bytes.begin(), value.bytes.end(), other.bytes.begin())) {
      return Status::Error(Code::kInvalidArgument,
                           "--live-weights: two models have different weights called \"%s\"",
                           value.name.c_str());
    }
  }
  return Status::Ok();
}

}  // namespace

Status BindLiveWeights(const CompileOptions& options, CompiledPlan* compiled) {
  ModelWeights weights;
  for (const ModelSource& model : options.models)
    RONDO_RETURN_IF_ERROR(ReadWeights(model.path, options, &weights));
  PlanData& plan = compiled->plan;
  const Span<Buffer> buffers = compiled->arena->New<Buffer>(plan.buffers.size());
  std::copy(plan.buffers.begin(), plan.buffers.end(), buffers.begin());
  for (uint32_t b = 0; b < buffers.size(); ++b) {
    Buffer& buffer = buffers[b];
    if (buffer.kind != BufferKind::kConstant || buffer.weight != WeightSource::kSynthetic) continue;
    const auto value = weights.live.find(std::string(LiveWeightOf(plan, b)));
    if (value == weights.live.end() || buffer.synthetic_run != 0) {
      const std::string_view source =
          buffer.source < plan.sources.size() ? plan.sources[buffer.source] : "no node";
      return Status::Error(Code::kUnsupported,
                           "--live-weights: constant \"%s\" of %s is no weight of the model as it is",
                           std::string(buffer.name).c_str(), std::string(source).c_str());
    }
    const auto bytes = std::make_shared<std::vector<uint8_t>>(buffer.bytes);
    RONDO_RETURN_IF_ERROR(ConvertWeight(value->second, buffer, bytes->data()));
    buffer.weight = WeightSource::kBytes;
    buffer.synthetic_scale = 0;
    compiled->constant_bytes[b] = Span<const uint8_t>(bytes->data(), bytes->size());
    compiled->keep.push_back(bytes);
  }
  const std::vector<uint32_t> same_as(buffers.size(), kNone);
  plan.weights_bytes = LayOutWeights(buffers, Span<const uint32_t>(same_as));
  plan.buffers = Span<const Buffer>(buffers.data(), buffers.size());
  std::vector<std::string_view> sources(plan.sources.begin(), plan.sources.end());
  for (const std::string& note : weights.fixed) sources.push_back(compiled->arena->CopyText(note));
  plan.sources = compiled->arena->Copy(sources);
  compiled->report.weights_bytes = plan.weights_bytes;
  compiled->report.synthetic_bytes = 0;
  return Status::Ok();
}

}  // namespace rondo
