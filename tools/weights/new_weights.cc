#include "tools/weights/new_weights.h"

#include <cstring>
#include <utility>

#include "compiler/quantise/replay_weight.h"
#include "formats/plan/reader.h"
#include "formats/plan/writer.h"
#include "runtime/verify/value_names.h"

namespace rondo::tools {
namespace {

using LiveBuffers = std::multimap<std::string_view, std::pair<uint32_t, LiveWeight>>;  // by name

LiveBuffers LiveBuffersOf(const PlanData& plan) {
  LiveBuffers live;
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    if (const LiveWeight weight = LiveWeightOf(plan, b); !weight.name.empty())
      live.emplace(weight.name, std::pair(b, weight));
  }
  return live;
}

Status NoSuchWeight(const LiveBuffers& live, const std::string& name) {
  std::vector<std::string_view> known;
  for (const auto& [one, buffer] : live) known.push_back(one);
  const std::string near = NearestNames(name, known);
  return Status::Error(Code::kInvalidArgument, "the plan has no weight \"%s\" that can be replaced%s%s",
                       name.c_str(), near.empty() ? "" : "; nearest: ", near.c_str());
}

}  // namespace

Result<NewWeights> FitWeights(const PlanData& plan, const WeightFile& file) {
  const LiveBuffers live = LiveBuffersOf(plan);
  if (live.empty()) {
    return Status::Error(Code::kFailedPrecondition,
                         "no weight of the plan can be replaced: compile the model with --live-weights");
  }
  NewWeights weights;
  WeightReplay replay;
  for (const WeightValue& value : file.values) {
    const auto [first, end] = live.equal_range(value.name);
    if (first == end) {
      // A model also has initializers that no step reads; the plan does not know their names.
      if (file.is_model && IsLiveWeight(value.dtype, value.shape)) continue;
      RONDO_RETURN_IF_ERROR(file.is_model ? CheckFixedWeight(plan, value) : NoSuchWeight(live, value.name));
      continue;
    }
    ++weights.replaced;
    for (auto weight = first; weight != end; ++weight) {
      const auto& [buffer, part] = weight->second;
      std::vector<uint8_t> room;
      RONDO_ASSIGN_OR_RETURN(weights.bytes[buffer], replay.BytesOf(value, part, plan.buffers[buffer], &room));
      if (!room.empty())
        weights.made.push_back(std::move(room));  // moving the vector keeps the bytes' address
    }
  }
  if (weights.replaced == 0)
    return Status::Error(Code::kInvalidArgument, "none of its weights is one of the plan's");
  return weights;
}

Status ReplaceInFile(const std::string& path, const WeightFile& file, const std::string& output,
                     size_t* replaced) {
  Arena arena;
  RONDO_ASSIGN_OR_RETURN(PlanFile plan, LoadPlanFile(path.c_str(), {}, arena));
  RONDO_ASSIGN_OR_RETURN(const NewWeights weights, FitWeights(plan.data, file));
  if (!plan.data.weights_file.empty()) {
    return Status::Error(
        Code::kUnsupported,
        "%s keeps its weights in the file %s, which other plans may share: compile the model "
        "without --weights-file",
        path.c_str(), std::string(plan.data.weights_file).c_str());
  }
  *replaced = weights.replaced;
  const Result<Span<const uint8_t>> old = plan.weights.Map();
  if (!old.ok()) return old.status();
  const FillWeight fill = [&](uint32_t buffer, uint64_t first, uint64_t count, uint8_t* out) {
    const auto replacement = weights.bytes.find(buffer);
    const uint8_t* from = replacement != weights.bytes.end()
                              ? replacement->second.data()
                              : old->data() + plan.data.buffers[buffer].file_offset;
    std::memcpy(out, from + first, count);
    return Status::Ok();
  };
  return WritePlan(plan.data, fill, {output});
}

}  // namespace rondo::tools
