// Attention in which every query head has its own keys and values, for com.microsoft's operators.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// q [b, h, s, d], k [b, h, t, d], v [b, h, t, e]; the first `past` of the t keys are of earlier runs, or the
// first `held` (i64 []), and the run's own behind them, of buffers with room for t.
struct MultiHead {
  NodeId q = kNoNode, k = kNoNode, v = kNoNode;
  ir::Size past = 0;
  NodeId held = kNoNode;
  int mask_input = -1, bias_input = -1;  // of the node: which keys count, what is added to scores
};

Status CheckMultiHead(const OpContext& c, const MultiHead& h);

// What the node's attributes (scale, unidirectional, mask_filter_value) and inputs ask for, as [b, s, h * e].
// `scores`, if it is not null, becomes what the softmax is of, [b, h, s, t].
Result<NodeId> AttendHeads(OpContext& c, const MultiHead& h, NodeId* scores = nullptr);

// Rows `now` [b, h, s, d] after those of `past` [b, h, p, d].
Result<NodeId> AppendRows(OpContext& c, NodeId past, NodeId now);

// How many positions buffers hold that past and present share: input `i`, one number, as i64 []; kNoNode
// where the node's attribute past_present_share_buffer is not set, and `always` is not either.
Result<NodeId> ReadHeld(OpContext& c, int i, bool always);

// Rows `now` [b, h, s, d] in the buffer `past` [b, h, t, d], behind the first `held`; appended if that is
// kNoNode.
Result<NodeId> WithRows(OpContext& c, NodeId past, NodeId now, NodeId held);

// Input `i`, whose last dim is of keys, as long as there are places for them; what is added is 0.
Result<NodeId> AsLong(OpContext& c, int i, int64_t keys);

// The whole node (outputs 0, and 1 if wanted), given the projections [b, s, q + k + v] of its input, and
// which of its inputs are mask, past [2, b, h, p, d], bias of the scores, and how many positions past holds.
Status AttendProjected(OpContext& c, NodeId projected, int mask, int past, int bias, int held = -1);

// Attention of com.microsoft: input, weights, bias, mask, past, bias of the scores, and how many past holds.
Status ProjectAndAttend(OpContext& c);

}  // namespace rondo::importer
