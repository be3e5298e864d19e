// Rotary embedding, shared by several operators.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// Rotates the first 2 * half features of x [b, h, s, d] by cosine and sine [b or 1, s, half]. Errors: shapes
// that do not fit.
Result<NodeId> RotateHeads(OpContext& c, NodeId x, NodeId cosine, NodeId sine, bool interleaved);

// The cosines and sines (inputs of shape [positions, half]) at `position` [b or 1, s]: each [b or 1, s,
// half]. If a condition chooses between two tables, it chooses between rows of both instead, so that no table
// is copied. Errors: another rank, or empty tables.
struct Angles {
  NodeId cosine = kNoNode, sine = kNoNode;
};
Result<Angles> AnglesAt(OpContext& c, int cosine, int sine, NodeId position);

// x [b, s, h * d] as [b, h, s, d], and back.
Result<NodeId> SplitHeads(OpContext& c, NodeId x, int64_t heads);
NodeId JoinHeads(ir::Builder& b, NodeId x);

}  // namespace rondo::importer
