#include "compiler/bind_live_weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/model_weights.h"
#include "compiler/quantise/replay_weight.h"
#include "formats/plan/writer.h"

namespace rondo {
namespace {

constexpr std::string_view kInitializer =
    "Initializer \"";  // how sources name an initializer: its name and a closing quote follow

struct KnownWeights {
  std::map<std::string, WeightValue> live;
  std::set<std::string> fixed;  // weights with a FixedWeightNote
  std::vector<std::shared_ptr<const void>> keep;
};

Status ReadWeights(const std::string& path, const CompileOptions& options, KnownWeights* weights) {
  RONDO_ASSIGN_OR_RETURN(const ModelWeights model, ReadModelWeights(path, options.external_data));
  weights->keep.insert(weights->keep.end(), model.keep.begin(), model.keep.end());
  for (const WeightValue& value : model.values) {
    if (!IsLiveWeight(value.dtype, value.shape)) {
      const auto reader = model.readers.find(value.name);
      weights->fixed.insert(FixedWeightNote(value, reader == model.readers.end() ? "" : reader->second));
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

// Two constants with equal keys are the same share of one initializer: key, run and step, bytes and type.
using ShareKey = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, DType>;

// Whether a pass computed the constant, which holds bytes, from a live weight.
bool MadeOf(const KnownWeights& weights, const PlanData& plan, const Buffer& buffer) {
  if (buffer.weight != WeightSource::kBytes || buffer.source >= plan.sources.size()) return false;
  const std::string_view source = plan.sources[buffer.source];
  for (size_t at = source.find(kInitializer); at != source.npos; at = source.find(kInitializer, at + 1)) {
    const std::string_view name = source.substr(at + kInitializer.size());
    if (weights.live.count(std::string(name.substr(0, std::min(name.find("\"; "), name.size() - 1)))) != 0)
      return true;
  }
  return false;
}

Status NotLive(const PlanData& plan, const Buffer& buffer) {
  const std::string_view source =
      buffer.source < plan.sources.size() ? plan.sources[buffer.source] : "no node";
  return Status::Error(
      Code::kUnsupported,
      "--live-weights: constant \"%s\" of %s is made of a weight in a way that other values of it "
      "cannot follow: leave out --live-weights, or what makes it (of --tp with "
      "--quantize-weights, one)",
      std::string(buffer.name).c_str(), std::string(source).c_str());
}

}  // namespace

Status BindLiveWeights(const CompileOptions& options, CompiledPlan* compiled) {
  KnownWeights weights;
  WeightReplay replay;
  for (const ModelSource& model : options.models)
    RONDO_RETURN_IF_ERROR(ReadWeights(model.path, options, &weights));
  PlanData& plan = compiled->plan;
  const Span<Buffer> buffers = compiled->arena->New<Buffer>(plan.buffers.size());
  std::copy(plan.buffers.begin(), plan.buffers.end(), buffers.begin());
  std::vector<std::string_view> sources(plan.sources.begin(), plan.sources.end());
  std::vector<uint32_t> same_as(buffers.size(), kNone);
  std::map<const uint8_t*, uint32_t> first_of;  // by a constant's bytes, which several devices may share
  std::map<ShareKey, Span<const uint8_t>> shares;
  for (uint32_t b = 0; b < buffers.size(); ++b) {
    Buffer& buffer = buffers[b];
    if (buffer.kind != BufferKind::kConstant || buffer.bytes == 0) continue;
    Span<const uint8_t>& bytes = compiled->constant_bytes[b];
    const auto value = weights.live.find(std::string(InitializerOf(plan, b)));
    const LiveWeight live =
        value == weights.live.end() ? LiveWeight() : ShareOfInitializer(plan, b, value->second.shape);
    if (live.name.empty() == (buffer.weight == WeightSource::kSynthetic) || MadeOf(weights, plan, buffer))
      return NotLive(plan, buffer);
    if (!live.name.empty()) {
      Span<const uint8_t>& share = shares[{buffer.synthetic_key, buffer.synthetic_run, buffer.synthetic_step,
                                           buffer.bytes, buffer.dtype}];
      if (share.empty()) {
        const auto room = std::make_shared<std::vector<uint8_t>>();
        RONDO_ASSIGN_OR_RETURN(share, replay.BytesOf(value->second, live, buffer, room.get()));
        compiled->keep.push_back(room);
      }
      bytes = share;
      buffer.weight = WeightSource::kBytes;
      buffer.synthetic_scale = 0;
      if (const std::string source = LiveWeightSource(live, buffer); source != plan.sources[buffer.source]) {
        buffer.source = static_cast<uint32_t>(sources.size());
        sources.push_back(compiled->arena->CopyText(source));
      }
    }
    const auto [first, added] = first_of.try_emplace(bytes.data(), b);
    if (!added && buffers[first->second].bytes == buffer.bytes) same_as[b] = first->second;
  }
  compiled->keep.insert(compiled->keep.end(), weights.keep.begin(), weights.keep.end());
  plan.weights_bytes = LayOutWeights(buffers, Span<const uint32_t>(same_as));
  plan.buffers = Span<const Buffer>(buffers.data(), buffers.size());
  for (const std::string& note : weights.fixed) sources.push_back(compiled->arena->CopyText(note));
  plan.sources = compiled->arena->Copy(sources);
  compiled->report.weights_bytes = plan.weights_bytes;
  compiled->report.synthetic_bytes = 0;
  return Status::Ok();
}

}  // namespace rondo
