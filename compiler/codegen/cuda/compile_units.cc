#include "compiler/codegen/cuda/compile_units.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "compiler/codegen/cuda/kernel_cache.h"
#include "compiler/codegen/cuda/nvrtc.h"

namespace rondo {

Result<CompiledUnits> CompileUnits(const std::vector<std::string>& texts, const UnitOptions& options) {
  CompiledUnits out;
  if (texts.empty()) return out;
  RONDO_ASSIGN_OR_RETURN(const Nvrtc nvrtc, Nvrtc::Open(options.library_path));
  KernelCache cache;
  if (!options.cache_folder.empty()) {
    RONDO_ASSIGN_OR_RETURN(cache, KernelCache::Open(options.cache_folder));
  }
  const std::string signature = nvrtc.Signature(options.architecture);
  out.compiler = signature;

  std::unordered_map<std::string_view, uint32_t> known;
  std::vector<const std::string*> units;
  for (const std::string& text : texts) {
    const auto [at, is_new] = known.emplace(text, static_cast<uint32_t>(units.size()));
    if (is_new) units.push_back(&text);
    out.code_of.push_back(at->second);
  }
  out.codes.resize(units.size());

  std::vector<Status> failed(units.size());
  std::atomic<size_t> next{0}, cached{0};
  // No exception leaves a thread: running out of memory is an error of its unit.
  auto compile = [&](size_t u) {
    try {
      const std::string whole = WholeText(*units[u], options.headers);
      if (std::optional<std::vector<uint8_t>> code = cache.Find(whole, signature)) {
        out.codes[u] = std::move(*code);
        ++cached;
        return;
      }
      Result<std::vector<uint8_t>> code =
          nvrtc.Compile(*units[u], ReachedHeaders(*units[u], options.headers), options.architecture);
      failed[u] = code.status();
      if (!code.ok()) return;
      cache.Keep(whole, signature, *code);
      out.codes[u] = std::move(*code);
    } catch (const std::exception& e) {
      failed[u] = Status::Error(Code::kOutOfMemory, "while compiling kernels: %s", e.what());
    }
  };
  auto work = [&] {
    for (size_t u = next++; u < units.size(); u = next++) compile(u);
  };
  const size_t most =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  try {
    for (size_t t = 1; t < std::min(most, units.size()); ++t) helpers.emplace_back(work);
  } catch (const std::exception&) {
    // Use as many threads as could be started.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  for (const Status& status : failed) RONDO_RETURN_IF_ERROR(status);
  out.cached = cached;
  return out;
}

}  // namespace rondo
