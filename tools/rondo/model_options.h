// Options that `compile` and `test` share, each declared once: the target of a compilation and its settings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "tools/rondo/options.h"

namespace rondo::tools {

struct ModelOptions {
  std::vector<std::string> shapes = {}, bounds = {};
  std::string target = {}, weights = "divide";
  int64_t tensor_parallel = 0, pipeline_parallel = 0, chunks = 0;
  bool no_kernel_cache = false, no_auto_state = false;
};

// `to` must outlive the parsing. `otherwise` ends the help text: it describes the default.
void DeclareTarget(OptionSet& options, ModelOptions* to, const char* otherwise);
void DeclareShapes(OptionSet& options, ModelOptions* to, const char* otherwise);
void DeclareBounds(OptionSet& options, ModelOptions* to);
void DeclareKernelCache(OptionSet& options, ModelOptions* to);
void DeclareAutoState(OptionSet& options, ModelOptions* to);
// --tp, --pp and --weights.
void DeclareSharing(OptionSet& options, ModelOptions* to);

// Takes --bound NODE=N, once per node. Returns what is wrong; "" if nothing is.
std::string TakeBounds(const std::vector<std::string>& texts, CompileOptions* options);

// --weights, "divide" or "gather"; false for other texts. If weights are gathered, --devices N gives the
// number of devices that share them, like --tp N.
bool TakeWeights(const std::string& text, CompileOptions* options);

}  // namespace rondo::tools
