#include "compiler/compile.h"

#include <cstring>
#include <iterator>

#include "compiler/bind_live_weights.h"
#include "compiler/pipeline.h"
#include "compiler/within_memory.h"
#include "formats/plan/writer.h"

namespace rondo {

std::optional<Precision> ParsePrecision(std::string_view text) {
  constexpr std::pair<std::string_view, Precision> kNames[] = {{"f32", Precision::kF32},
                                                               {"tf32", Precision::kTf32},
                                                               {"f16", Precision::kF16},
                                                               {"bf16", Precision::kBF16}};
  for (const auto& [name, precision] : kNames) {
    if (text == name) return precision;
  }
  return std::nullopt;
}

std::optional<WeightBits> ParseWeightBits(std::string_view text) {
  constexpr std::pair<std::string_view, PackedType> kNames[] = {{"int2", PackedType::kU2},
                                                                {"int4", PackedType::kU4},
                                                                {"int8", PackedType::kU8},
                                                                {"fp8", PackedType::kE4M3},
                                                                {"fp4", PackedType::kE2M1}};
  const size_t colon = std::min(text.find(':'), text.size());
  for (const auto& [name, type] : kNames) {
    if (text.substr(0, colon) != name) continue;
    WeightBits bits = {type, 0};
    if (colon == text.size()) return bits;
    for (int64_t block : {16, 32, 64, 128, 256}) {
      if (text.substr(colon + 1) == std::to_string(block)) return WeightBits{type, block};
    }
  }
  return std::nullopt;
}

std::string ModelPathOn(const std::string& path, uint32_t device) {
  constexpr std::string_view kRank = "{rank}";
  const size_t at = path.find(kRank);
  if (at == std::string::npos) return path;
  return path.substr(0, at) + std::to_string(device) + path.substr(at + kRank.size());
}

namespace {

// The result of `compile`. If memory runs out, the error names the pass that was running.
template <typename T, typename F>
Result<T> Guarded(const CompileOptions& options, const F& compile) {
  std::string pass = "compiling";
  return WithinMemory(pass, [&] {
    pass.reserve(64);  // so that no allocation is needed once memory has run out
    CompileOptions watched = options;
    watched.progress = [&](const std::string& program, const std::string& name) {
      pass.assign(name, 0, pass.capacity());
      if (options.progress) options.progress(program, name);
    };
    return compile(watched);
  });
}

// Passes that compute new constants from weights.
constexpr const char* kReshapeWeights[] = {"fold_weight_scales", "pad_masks", "pad_channels", "pad_matmuls",
                                           "order_convolution_weights"};

Status CheckLiveWeights(const CompileOptions& options) {
  const char* other = options.synthetic_seed.has_value() ? "--synthetic-weights"
                      : options.devices > 1              ? "--devices"
                                                         : nullptr;
  if (other == nullptr) return Status::Ok();
  return Status::Error(Code::kInvalidArgument,
                       "--live-weights does not go with %s, which makes others of them", other);
}

Result<CompiledPlan> InMemory(const CompileOptions& given) {
  CompileOptions options = given;
  if (options.live_weights) {
    RONDO_RETURN_IF_ERROR(CheckLiveWeights(options));
    options.skip_passes.insert(options.skip_passes.end(), std::begin(kReshapeWeights),
                               std::end(kReshapeWeights));
  }
  Compilation compilation(options);
  RONDO_RETURN_IF_ERROR(RunPipeline(&compilation));
  CompiledPlan compiled;
  static_cast<EmittedPlan&>(compiled) = std::move(compilation.emitted);
  compiled.plan.producer =
      options.producer.empty() ? "rondo " RONDO_VERSION : compiled.arena->CopyText(options.producer);
  compiled.report = std::move(compilation.report);
  if (options.live_weights) RONDO_RETURN_IF_ERROR(BindLiveWeights(options, &compiled));
  return compiled;
}

// The function from which the writer gets the weights; valid as long as `compiled`.
FillWeight WeightsOf(const CompiledPlan& compiled) {
  return [&compiled](uint32_t buffer, uint64_t first, uint64_t bytes, uint8_t* out) {
    std::memcpy(out, compiled.constant_bytes[buffer].data() + first, bytes);
    return Status::Ok();
  };
}

Result<CompileReport> ToFile(const CompileOptions& options, const std::string& plan_path) {
  RONDO_RETURN_IF_ERROR(MayWritePlan(plan_path));  // fail before the work, not after it
  RONDO_ASSIGN_OR_RETURN(CompiledPlan compiled, InMemory(options));
  WriteOptions write;
  write.path = plan_path;
  if (options.progress) options.progress("", "write");
  RONDO_RETURN_IF_ERROR(WritePlan(compiled.plan, WeightsOf(compiled), write));
  return std::move(compiled.report);
}

Result<std::vector<uint8_t>> ToBytes(const CompileOptions& options) {
  if (!options.weights_file.empty()) {
    return Status::Error(Code::kInvalidArgument,
                         "weights go into the file %s, which lies beside a plan's file",
                         options.weights_file.c_str());
  }
  RONDO_ASSIGN_OR_RETURN(CompiledPlan compiled, InMemory(options));
  std::vector<uint8_t> bytes;
  RONDO_RETURN_IF_ERROR(WritePlanBytes(compiled.plan, WeightsOf(compiled), &bytes));
  return bytes;
}

}  // namespace

Result<CompiledPlan> CompileToMemory(const CompileOptions& options) {
  return Guarded<CompiledPlan>(options, InMemory);
}

Result<std::vector<uint8_t>> CompileToBytes(const CompileOptions& options) {
  return Guarded<std::vector<uint8_t>>(options, ToBytes);
}

Result<CompileReport> Compile(const CompileOptions& options, const std::string& plan_path) {
  return Guarded<CompileReport>(options, [&](const CompileOptions& o) { return ToFile(o, plan_path); });
}

}  // namespace rondo
