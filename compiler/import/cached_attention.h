// Writes keys and values into caches, and builds attention over them, for operators that have their own
// cache. All functions require valid arguments, like the Builder.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// `rows` [b, ..., m, ...] written to `cache` [b, ..., n, ...] along `axis`, at `place` (i64, broadcast to the
// shape of rows): one kIndexedWrite, which is done in place on a state. A place outside [0, n) is a fault of
// the run.
NodeId WriteRows(ir::Builder& b, NodeId cache, NodeId rows, NodeId place, int axis);

// Replaces the graph's output number `present`, a run's rows, by `cache` with these rows as its first ones
// along `axis`.
void BeginWithOutput(ir::Builder& b, NodeId cache, size_t present, int axis);

// The arguments of an attention node besides q [b, h, s, d], k [b, g, t, d] and v [b, g, t, e].
struct AttentionRequest {
  NodeId keep = kNoNode;   // bool, broadcast to [b, h, s, t]: false drops a key
  NodeId bias = kNoNode;   // float, broadcast to [b, h, s, t]: added to scores
  NodeId limit = kNoNode;  // i64, broadcast to [b, h, s]: only keys [0, limit) exist
  // f32, broadcast to [b, h, s]: a score without a value, which only adds to the sum of the softmax.
  NodeId sink = kNoNode;
  ir::AttentionAttrs attrs;
};

// One kAttention.
NodeId Attend(ir::Builder& b, NodeId q, NodeId k, NodeId v, const AttentionRequest& request);

// The stages of attention's scores.
enum class ScoreStage : uint8_t {
  kProduct,  // q k^T, scaled
  kCapped,   // after the softcap
  kMasked,   // biases added, -inf where a key is not seen
  kWeights   // after the softmax; 0 for a query that sees no key
};
// The scores of the same request at a stage, [b, h, s, t] in q's type, for models that output them. They are
// computed in addition to the attention.
NodeId Scores(ir::Builder& b, NodeId q, NodeId k, const AttentionRequest& request, ScoreStage stage);

}  // namespace rondo::importer
