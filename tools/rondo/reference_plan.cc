#include "tools/rondo/reference_plan.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "runtime/buckets/bucket_family.h"

namespace rondo::tools {
namespace {

constexpr std::array<std::string_view, 11> kWhatIsComputed = {
    "shape",  "bind",  "bound",         "unroll",           "cache-length",     "position-mask",
    "sample", "state", "no-auto-state", "quantize-weights", "synthetic-weights"};

struct GivenOption {
  std::string name, value;
};

// The options in a plan's producer: `rondo 1.2.3 (...) with --name value --flag`.
std::vector<GivenOption> OptionsOf(std::string_view producer) {
  constexpr std::string_view kWith = " with --", kNext = " --";
  std::vector<GivenOption> options;
  for (size_t at = producer.find(kWith); at != producer.npos;) {
    at = producer.find("--", at) + 2;
    const size_t end = producer.find(kNext, at);
    const std::string_view option = producer.substr(at, end - at);
    const size_t space = std::min(option.find(' '), option.size());
    options.push_back({std::string(option.substr(0, space)),
                       std::string(option.substr(std::min(space + 1, option.size())))});
    at = end;
  }
  return options;
}

// Whether `value` belongs to a program other than `program`: "decode:x=1".
bool IsOfAnother(const std::string& value, const PlanData& plan, uint32_t program) {
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    if (p != program && value.rfind(std::string(plan.programs[p].name) + ":", 0) == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> ReferenceWords(const std::string& model, const PlanData& plan, uint32_t program,
                                        const std::string& output) {
  const bool named = model.find('=') != std::string::npos && !std::filesystem::exists(model);
  const bool bucket = !RoomsOf(plan, program).empty();
  std::vector<std::string> words = {
      named || bucket ? model : std::string(plan.programs[program].name) + "=" + model,
      "--output",
      output,
      "--target",
      "host",
      "--annotate",
      "*:fuse=off",
      "--quiet"};
  for (const GivenOption& option : OptionsOf(plan.producer)) {
    if (std::find(kWhatIsComputed.begin(), kWhatIsComputed.end(), option.name) == kWhatIsComputed.end() ||
        IsOfAnother(option.value, plan, program))
      continue;
    words.push_back("--" + option.name);
    if (!option.value.empty()) words.push_back(option.value);
  }
  return words;
}

}  // namespace rondo::tools
