// Keys and values that are kept from run to run, and attention over them: what the operators that hold a
// cache themselves share. All take valid arguments, as the Builder does.
#ifndef RONDO_COMPILER_IMPORT_CACHED_ATTENTION_H_
#define RONDO_COMPILER_IMPORT_CACHED_ATTENTION_H_

#include "compiler/import/op_context.h"

namespace rondo::importer {

// `rows` [b, ..., m, ...] written to `cache` [b, ..., n, ...] along `axis`, where `place` (i64, broadcast to
// the shape of rows) says: one kIndexedWrite, which a state does in place. A place outside of [0, n) is a
// fault of the run.
NodeId WriteRows(ir::Builder& b, NodeId cache, NodeId rows, NodeId place, int axis);

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

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_CACHED_ATTENTION_H_
