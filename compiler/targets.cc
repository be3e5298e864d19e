#include "compiler/targets.h"

#include <algorithm>
#include <set>

#include "formats/machine_code/architecture.h"

namespace rondo {

std::string KnownTargets() {
  std::string text = "host";
  for (const GpuTarget& target : GpuTargets()) text += std::string(", cuda:") + target.architecture;
  return text;
}

Result<Targets> ParseTargets(const std::string& text) {
  constexpr std::string_view kCuda = "cuda:";
  Targets targets;
  std::set<std::string> seen;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, comma - at);
    at = comma + 1;
    const bool gpu =
        name.substr(0, kCuda.size()) == kCuda && FindGpuTarget(name.substr(kCuda.size())) != nullptr;
    if (!gpu && name != "host") {
      return Status::Error(Code::kUnsupported, "target \"%s\" is not known; known: %s", name.c_str(),
                           KnownTargets().c_str());
    }
    if (!seen.insert(name).second)
      return Status::Error(Code::kInvalidArgument, "target \"%s\" is named twice", name.c_str());
    if (gpu) targets.gpus.push_back(name.substr(kCuda.size()));
    targets.host = targets.host || !gpu;
  }
  return targets;
}

}  // namespace rondo
