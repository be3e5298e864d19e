// Attention in which every query head has keys and values of its own, as com.microsoft's operators ask for
// it.
#ifndef RONDO_COMPILER_IMPORT_MULTI_HEAD_H_
#define RONDO_COMPILER_IMPORT_MULTI_HEAD_H_

#include "compiler/import/op_context.h"

namespace rondo::importer {

// q [b, h, s, d], k [b, h, t, d], v [b, h, t, e]; the first `past` of the t keys are of earlier runs.
struct MultiHead {
  NodeId q = kNoNode, k = kNoNode, v = kNoNode;
  int64_t past = 0;
  int mask_input = -1, bias_input = -1;  // of the node: which keys count, what is added to scores
};

Status CheckMultiHead(const OpContext& c, const MultiHead& h);

// What the node's attributes (scale, unidirectional, mask_filter_value) and inputs ask for, as [b, s, h * e].
// `scores`, if it is not null, becomes what the softmax is of, [b, h, s, t].
Result<NodeId> AttendHeads(OpContext& c, const MultiHead& h, NodeId* scores = nullptr);

// Rows `now` [b, h, s, d] after those of `past` [b, h, p, d].
Result<NodeId> AppendRows(OpContext& c, NodeId past, NodeId now);

// The whole node (outputs 0, and 1 if wanted), given the projections [b, s, q + k + v] of its input, and
// which of its inputs are mask, past [2, b, h, p, d] and bias of the scores.
Status AttendProjected(OpContext& c, NodeId projected, int mask, int past, int bias);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_MULTI_HEAD_H_
