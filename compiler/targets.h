// Targets: what a plan is compiled for, as `--target` says it.
#ifndef RONDO_COMPILER_TARGETS_H_
#define RONDO_COMPILER_TARGETS_H_

#include <string>
#include <vector>

#include "core/status.h"

namespace rondo {

struct Targets {
  std::vector<std::string> gpus;  // architectures, in the order named: "sm_90a"
  bool host = false;

  // One fusion serves all of them. The first GPU named decides it, and with it which products a library
  // computes; the host, which runs any plan, decides where there is no GPU.
  const std::string* gpu() const { return gpus.empty() ? nullptr : &gpus[0]; }
};

// "host", "cuda:sm_90a", "cuda:sm_80,cuda:sm_90a,host". Errors: kUnsupported, naming what is known;
// kInvalidArgument for one named twice.
Result<Targets> ParseTargets(const std::string& text);

// "host, cuda:sm_80, ...": all that there are.
std::string KnownTargets();

}  // namespace rondo

#endif  // RONDO_COMPILER_TARGETS_H_
