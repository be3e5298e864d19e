// Writes keys and values into caches, and builds attention over them, for the operators that have a cache of
// their own. All functions take valid arguments, like the Builder.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// `rows` [b, ..., m, ...] written to `cache` [b, ..., n, ...] along `axis`, where `place` (i64, broadcast to
// the shape of rows) says: one kIndexedWrite, which a state does in place. A place outside of [0, n) is a
// fault of the run.
NodeId WriteRows(ir::Builder& b, NodeId cache, NodeId rows, NodeId place, int axis);

// The graph's output number `present`, a run's rows, becomes `cache` with them as its first ones along
// `axis`.
void BeginWithOutput(ir::Builder& b, NodeId cache, size_t present, int axis);

// What an attention node is asked for besides q [b, h, s, d], k [b, g, t, d] and v [b, g, t, e].
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

// Scores on their way to attention's result.
enum class ScoreStage : uint8_t {
  kProduct,  // q k^T, scaled
  kCapped,   // after the softcap
  kMasked,   // biases added, -inf where a key is not seen
  kWeights   // after the softmax; 0 for a query that sees no key
};
// Those of the same request, [b, h, s, t] in q's type, for models that want to see them. They are computed
// beside the attention.
NodeId Scores(ir::Builder& b, NodeId q, NodeId k, const AttentionRequest& request, ScoreStage stage);

}  // namespace rondo::importer
