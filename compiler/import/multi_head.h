// Attention in which every query head has its own keys and values, for operators of com.microsoft.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// q [b, h, s, d], k [b, h, t, d], v [b, h, t, e]. The run's own keys and values follow those of earlier runs.
// If `held` is kNoNode, `past` of the t keys are of earlier runs, and the run's own are the rest. Otherwise k
// and v are buffers with room for t, and the first `held` (i64 []) are of earlier runs.
struct MultiHead {
  NodeId q = kNoNode, k = kNoNode, v = kNoNode;
  ir::Size past = 0;
  NodeId held = kNoNode;
  // Indices of the node's inputs: which keys count, and a bias of the scores.
  int mask_input = -1, bias_input = -1;
};

Status CheckMultiHead(const OpContext& c, const MultiHead& h);

// The attention that the node's attributes (scale, unidirectional, mask_filter_value) and inputs ask for, [b,
// s, h * e]. If `scores` is not null, it gets the operand of the softmax, [b, h, s, t].
Result<NodeId> AttendHeads(OpContext& c, const MultiHead& h, NodeId* scores = nullptr);

// `past` [b, h, p, d] followed by the rows `now` [b, h, s, d].
Result<NodeId> AppendRows(OpContext& c, NodeId past, NodeId now);

// The number of filled positions in buffers that past and present share: input `i`, which has one element, as
// i64 []. kNoNode if neither `always` nor the node's attribute past_present_share_buffer is set.
Result<NodeId> ReadHeld(OpContext& c, int i, bool always);

// The buffer `past` [b, h, t, d] with the rows `now` [b, h, s, d] written after its first `held` positions.
// If `held` is kNoNode, AppendRows.
Result<NodeId> WithRows(OpContext& c, NodeId past, NodeId now, NodeId held);

// Input `i`, whose last dim is of keys, padded with 0 to `keys` of them.
Result<NodeId> AsLong(OpContext& c, int i, int64_t keys);

// Sets the node's output 0, and output 1 if wanted. `projected` [b, s, q + k + v] holds the projections of
// its input. The rest are indices of inputs: the mask, past [2, b, h, p, d], the bias of the scores, and the
// number of filled positions in past (-1: no such input).
Status AttendProjected(OpContext& c, NodeId projected, int mask, int past, int bias, int held = -1);

// Attention of com.microsoft. Its inputs: input, weights, bias, mask, past, bias of the scores, and the
// number of filled positions in past.
Status ProjectAndAttend(OpContext& c);

}  // namespace rondo::importer
