// TakeWeights: the option --weights of commands that compile.
#ifndef RONDO_TOOLS_RONDO_WEIGHTS_OPTION_H_
#define RONDO_TOOLS_RONDO_WEIGHTS_OPTION_H_

#include <string>

#include "compiler/compile.h"

namespace rondo::tools {

inline constexpr const char* kWeightsHelp =
    "with --tp (or --devices) N: divide, each device works with its share of them (the default), or gather, "
    "each does all the work and brings weights together just before their use: results equal to the bit";

// "divide" or "gather"; false: neither. Where weights are gathered, --devices N says as --tp N does how many
// devices share them.
inline bool TakeWeights(const std::string& text, CompileOptions* options) {
  if (text != "divide" && text != "gather") return false;
  if (text == "divide") return true;
  options->weights = Weights::kGather;
  if (options->tensor_parallel > 1) return true;
  options->tensor_parallel = options->devices;
  options->devices = 0;
  return true;
}

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_WEIGHTS_OPTION_H_
