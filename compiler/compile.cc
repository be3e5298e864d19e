#include "compiler/compile.h"

#include <cstring>

#include "compiler/pipeline.h"
#include "compiler/within_memory.h"
#include "formats/plan/writer.h"

namespace rondo {

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

// What `compile` gives; where memory runs out, the pass that it ran out in is named.
template <typename T, typename F>
Result<T> Guarded(const CompileOptions& options, const F& compile) {
  std::string pass = "compiling";
  return WithinMemory(pass, [&] {
    pass.reserve(64);  // short of memory, nothing is put together
    CompileOptions watched = options;
    watched.progress = [&](const std::string& program, const std::string& name) {
      pass.assign(name, 0, pass.capacity());
      if (options.progress) options.progress(program, name);
    };
    return compile(watched);
  });
}

Result<CompiledPlan> InMemory(const CompileOptions& options) {
  Compilation compilation(options);
  RONDO_RETURN_IF_ERROR(RunPipeline(&compilation));
  CompiledPlan compiled;
  static_cast<EmittedPlan&>(compiled) = std::move(compilation.emitted);
  compiled.plan.producer =
      options.producer.empty() ? "rondo " RONDO_VERSION : compiled.arena->CopyText(options.producer);
  compiled.report = std::move(compilation.report);
  return compiled;
}

Result<CompileReport> ToFile(const CompileOptions& options, const std::string& plan_path) {
  RONDO_RETURN_IF_ERROR(MayWritePlan(plan_path));  // rather now than after all the work
  RONDO_ASSIGN_OR_RETURN(CompiledPlan compiled, InMemory(options));
  const auto fill = [&](uint32_t buffer, uint64_t first, uint64_t bytes, uint8_t* out) {
    std::memcpy(out, compiled.constant_bytes[buffer].data() + first, bytes);
    return Status::Ok();
  };
  WriteOptions write;
  write.path = plan_path;
  if (options.progress) options.progress("", "write");
  RONDO_RETURN_IF_ERROR(WritePlan(compiled.plan, fill, write));
  return std::move(compiled.report);
}

}  // namespace

Result<CompiledPlan> CompileToMemory(const CompileOptions& options) {
  return Guarded<CompiledPlan>(options, InMemory);
}

Result<CompileReport> Compile(const CompileOptions& options, const std::string& plan_path) {
  return Guarded<CompileReport>(options, [&](const CompileOptions& o) { return ToFile(o, plan_path); });
}

}  // namespace rondo
