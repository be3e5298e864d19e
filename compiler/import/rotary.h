// Rotary embedding, shared by the operators that apply it.
#ifndef RONDO_COMPILER_IMPORT_ROTARY_H_
#define RONDO_COMPILER_IMPORT_ROTARY_H_

#include "compiler/import/op_context.h"

namespace rondo::importer {

// Rotates the first 2 * half features of x [b, h, s, d] (all when that is d) by cosine and sine
// [b or 1, s, half]. Errors: shapes that do not fit.
Result<NodeId> RotateHeads(OpContext& c, NodeId x, NodeId cosine, NodeId sine, bool interleaved);

// Rows of a cache [positions, half] of cosines or sines. Of one of two, which a condition chooses, the rows
// are read of both, and not all of the chosen one copied before.
NodeId AnglesAt(ir::Builder& b, NodeId cache, NodeId position);

// x [b, s, h * d] as [b, h, s, d], and back.
Result<NodeId> SplitHeads(OpContext& c, NodeId x, int64_t heads);
NodeId JoinHeads(ir::Builder& b, NodeId x);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_ROTARY_H_
