// Targets: what a plan is compiled for.
//
// Plain values, parsed once from `--target`; nothing else compares names. A target points into the table of
// GPUs (formats/machine_code/architecture.h), which is static.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "formats/machine_code/architecture.h"

namespace rondo {

struct Target {
  const GpuTarget* gpu = nullptr;  // null: the host

  bool is_host() const { return gpu == nullptr; }
};

struct Targets {
  std::vector<Target> all = {Target()};  // in the order named, at least one, none twice

  // The target that fusion is decided for, and the matmuls of a library with it; one fusion serves all
  // targets. It is the first GPU named, otherwise the host, which runs any plan.
  Target deciding() const;
  bool any_gpu() const { return !deciding().is_host(); }
  // "cuda:sm_90a,host": as ParseTargets reads it, and as the plan states it.
  std::string text() const;
};

// "host", "cuda:sm_90a", "cuda:sm_80,cuda:sm_90a,host". Errors: kUnsupported, listing the known targets;
// kInvalidArgument for one named twice.
Result<Targets> ParseTargets(std::string_view text);

// "host, cuda:sm_80, ...": all known targets.
std::string KnownTargets();

}  // namespace rondo
