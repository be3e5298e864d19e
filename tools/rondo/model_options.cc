#include "tools/rondo/model_options.h"

#include <algorithm>
#include <charconv>

#include "compiler/targets.h"

namespace rondo::tools {
namespace {

// The targets of --target, one by one, for shell completion.
std::vector<std::string> TargetWords() {
  std::vector<std::string> words;
  const std::string known = KnownTargets();
  for (size_t at = 0; at < known.size();) {
    const size_t end = std::min(known.find(", ", at), known.size());
    words.push_back(known.substr(at, end - at));
    at = end + 2;
  }
  return words;
}

}  // namespace

void DeclareTarget(OptionSet& options, ModelOptions* to, const char* otherwise) {
  const std::string help =
      "what to generate code for: " + KnownTargets() +
      "; or several, as in cuda:sm_80,cuda:sm_90a: the first GPU named decides how kernels "
      "are fused; default: " +
      otherwise;
  options.Text("--target", &to->target, help.c_str(), "TARGET").Suggest(TargetWords());
}

void DeclareShapes(OptionSet& options, ModelOptions* to, const char* otherwise) {
  const std::string help =
      std::string(
          "the shape of an input (x=1x128; -1: as the model says) or the size of a symbolic dimension "
          "(batch=4); several sizes (batch=1,4,16, sequence=16..512 by doubling) make a bucket for each, "
          "that "
          "takes all up to its own") +
      otherwise;
  options.Texts("--shape", &to->shapes, help.c_str(), "NAME=DIMS");
}

void DeclareBounds(OptionSet& options, ModelOptions* to) {
  options.Texts(
      "--bound", &to->bounds,
      "where data decide how often a Loop runs, how many boxes of a class a NonMaxSuppression keeps, or "
      "a length (of Range, Expand, Resize, ...): the most; NODE is the node's name, or an output of "
      "it. A run that has more fails",
      "NODE=N");
}

void DeclareKernelCache(OptionSet& options, ModelOptions* to) {
  options.Flag("--no-kernel-cache", &to->no_kernel_cache, "compile every kernel, and keep none").Rare();
}

void DeclareAutoState(OptionSet& options, ModelOptions* to) {
  options.Flag("--no-auto-state", &to->no_auto_state, "do not find states by naming conventions").Rare();
}

void DeclareSharing(OptionSet& options, ModelOptions* to) {
  options
      .Integer("--tp", &to->tensor_parallel, 1, 64,
               "tensor parallelism: share weights, states and work of the whole model out over N devices")
      .Integer(
          "--pp", &to->pipeline_parallel, 1, 64,
          "pipeline parallelism: cut the whole model into N stages, one after the other; with --tp, each "
          "stage is shared out")
      .Text(
          "--weights", &to->weights,
          "with --tp (or --devices) N: divide, each device works with its share of the weights (default); "
          "gather, each does all the work and gathers weights just before their use, same bits as one device",
          "divide|gather")
      .Integer(
          "--chunks", &to->chunks, 0, 64,
          "with --tp: cut collectives, and what works row by row around them, into N chunks, so that one "
          "is exchanged while another is computed (1: none; default: 0, each collective as the run ends "
          "first, by estimate)")
      .Rare();
}

std::string TakeBounds(const std::vector<std::string>& texts, CompileOptions* options) {
  for (const std::string& text : texts) {
    const size_t equals = text.rfind('=');
    int64_t bound = 0;
    const char *first = text.data() + std::min(equals, text.size() - 1) + 1, *end = text.data() + text.size();
    const bool read = equals != std::string::npos && equals > 0 && first < end &&
                      std::from_chars(first, end, bound).ptr == end;
    if (!read || bound < 1 || bound > 65536)
      return "--bound " + text + " is not of the form NODE=N, with N from 1 to 65536";
    if (!options->bounds.emplace(text.substr(0, equals), bound).second)
      return "--bound " + text + ": this node has two bounds";
  }
  return "";
}

bool TakeWeights(const std::string& text, CompileOptions* options) {
  if (text != "divide" && text != "gather") return false;
  if (text == "divide") return true;
  options->weights = Weights::kGather;
  if (options->tensor_parallel > 1) return true;
  options->tensor_parallel = options->devices;
  options->devices = 0;
  return true;
}

}  // namespace rondo::tools
