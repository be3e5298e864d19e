// A pass: a function from graph to graph, with a promise.
//
// Each pass is one file and one function, declared in passes.h; compiler/pipeline.cc has the table of passes
// in their order. A pass changes the graph in place, keeps its meaning (up to rounding), its control edges
// and its provenance, and leaves it compact: no dead nodes, in topological order. A pass has no state;
// different graphs may be processed at the same time. Errors are the user's (options with unknown names); a
// pattern that does not match is not an error.
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
  // fold_constants: the limit of a result and of an input, in bytes.
  int64_t fold_bytes = 8 << 20;
  // pad_matmuls: the limit of the constants that it stores by columns, all together, in bytes.
  int64_t reordered_bytes = int64_t{4} << 30;
  // pair_state: (input, output) names that are one persistent buffer; `auto_state` adds pairs by naming
  // conventions.
  std::vector<std::pair<std::string, std::string>> states;
  bool auto_state = true;
  // pair_state: inputs whose memory the caller gives away.
  std::vector<std::string> donations;
  // limit_to_cached, pair_state: inputs that are caches with only their first positions in use.
  std::vector<std::string> fixed_caches;
  // append_sampling: the output to draw tokens from (empty: no sampling), and the token input (empty: the
  // only possible one). Unless tokens_stay, drawn tokens are an output instead of a state.
  std::string sample_logits, sample_tokens;
  bool tokens_stay = true;
  // token_loop: rounds of a run.
  int64_t token_rounds = 1;
  // lower_precision: f16 or bf16; f32 leaves the graph unchanged.
  DType precision = DType::kF32;
  // quantize_weights: the target type; kNone leaves weights unchanged. Block 0: one scale for a row.
  PackedType quantize = PackedType::kNone;
  int64_t quantize_block = 0;
  TargetTraits target = GpuTraits();
};

struct PassResult {
  int64_t changes = 0;  // the pass's own count: nodes removed, patterns rewritten
  std::string text;  // a short line for people, e.g. "12 in-place writes"; may hold more lines with reasons
};

// An annotation, "f32", for nodes that lower_precision must not change.
inline constexpr char kPrecisionKey[] = "precision";

using PassFunction = Result<PassResult> (*)(ir::Graph* graph, const PassOptions& options);

struct Pass {
  const char* name;     // as in --dump-after
  const char* promise;  // what holds for the graph afterwards, one sentence
  PassFunction run;
};

}  // namespace rondo::passes
