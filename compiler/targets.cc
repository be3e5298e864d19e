#include "compiler/targets.h"

#include <algorithm>
#include <set>

namespace rondo {
namespace {

std::string NameOf(const Target& target) {
  return target.is_host() ? std::string(kHostTarget) : std::string(kGpuTargets) + target.gpu->architecture;
}

}  // namespace

Target Targets::deciding() const {
  const auto gpu = std::find_if(all.begin(), all.end(), [](const Target& t) { return !t.is_host(); });
  return gpu == all.end() ? Target() : *gpu;
}

std::string Targets::text() const {
  std::string text;
  for (const Target& target : all) text += (text.empty() ? "" : ",") + NameOf(target);
  return text;
}

std::string KnownTargets() {
  std::string text = NameOf(Target());
  for (const GpuTarget& gpu : GpuTargets()) text += ", " + NameOf(Target{&gpu});
  return text;
}

Result<Targets> ParseTargets(std::string_view text) {
  Targets targets;
  targets.all.clear();
  std::set<std::string_view> seen;
  for (const std::string_view name : TargetNames(text)) {
    const Target target{IsGpuTarget(name) ? FindGpuTarget(name.substr(kGpuTargets.size())) : nullptr};
    if (target.is_host() && name != kHostTarget) {
      return Status::Error(Code::kUnsupported, "target \"%s\" is not known; known: %s",
                           std::string(name).c_str(), KnownTargets().c_str());
    }
    if (!seen.insert(name).second) {
      return Status::Error(Code::kInvalidArgument, "target \"%s\" is named twice", std::string(name).c_str());
    }
    targets.all.push_back(target);
  }
  return targets;
}

}  // namespace rondo
