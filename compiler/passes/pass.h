// A pass: a function from graph to graph, with a promise.
//
// Each pass is one file and one function, declared in passes.h; the table that says which run, in which
// order, is compiler/pipeline.cc. A pass changes the graph in place, keeps its meaning (to rounding), its
// control edges and its provenance, and leaves it compact: no dead nodes, in topological order. A pass keeps
// no state; different graphs may be passed at the same time. Errors are a user's (options that name nothing);
// a pattern that does not fit is no error.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/target_traits.h"
#include "core/status.h"

namespace rondo::passes {

using ir::Graph, ir::kNoNode, ir::Node, ir::NodeId, ir::Op, ir::View;

struct PassOptions {
  // fold_constants: the largest result, and the largest input, in bytes.
  int64_t fold_bytes = 8 << 20;
  // pair_state: (input, output) names that are one persistent buffer; `auto_state` adds those that naming
  // conventions say.
  std::vector<std::pair<std::string, std::string>> states;
  bool auto_state = true;
  // pair_state: inputs whose memory their user gives away.
  std::vector<std::string> donations;
  // limit_to_cached, pair_state: inputs that are caches of which only the first positions hold something.
  std::vector<std::string> fixed_caches;
  // append_sampling: the output that tokens are drawn from (empty: none are), and the input that has tokens
  // (empty: the one that can be it). Unless tokens_stay, drawn tokens are an output, and no state.
  std::string sample_logits, sample_tokens;
  bool tokens_stay = true;
  // lower_precision: f16 or bf16; f32 leaves the graph as it is.
  DType precision = DType::kF32;
  // quantize_weights: to what; none leaves weights as they are. Block 0: a scale a row.
  PackedType quantize = PackedType::kNone;
  int64_t quantize_block = 0;
  TargetTraits target = GpuTraits();
};

struct PassResult {
  int64_t changes = 0;  // what the pass counts: nodes removed, patterns rewritten
  std::string text;  // a short line for people, e.g. "12 in-place writes"; may hold more lines with reasons
};

// An annotation of nodes, "f32", that lower_precision leaves as they are.
inline constexpr char kPrecisionKey[] = "precision";

using PassFunction = Result<PassResult> (*)(ir::Graph* graph, const PassOptions& options);

struct Pass {
  const char* name;     // as in --dump-after
  const char* promise;  // what is true of the graph afterwards, one sentence
  PassFunction run;
};

}  // namespace rondo::passes
