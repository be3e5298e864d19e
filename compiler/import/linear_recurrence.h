// A state [d_k, d_v] a head that every position changes and reads, written out position by position: what
// operators of linear attention share.
#ifndef RONDO_COMPILER_IMPORT_LINEAR_RECURRENCE_H_
#define RONDO_COMPILER_IMPORT_LINEAR_RECURRENCE_H_

#include <string>
#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

// What a position does: with `gated` the state decays before, with `delta` what it says of the key already is
// taken from the value.
struct UpdateRule {
  bool gated = false, delta = false;
};
// The attribute update_rule: linear, gated, delta or gated_delta, which is the default.
Result<UpdateRule> ReadUpdateRule(OpContext& c);

// kUnsupported if a run has more positions than are written out.
Status CheckPositions(int64_t rows);

// All f32, of `rows` positions. The heads of q may be a multiple of the others'.
struct Recurrence {
  NodeId q = kNoNode, k = kNoNode;  // [b, heads, rows, d_k]
  NodeId v = kNoNode;               // [b, heads, rows, d_v]
  NodeId decay = kNoNode;           // factors [b, heads or 1, rows, d_k or 1]; kNoNode: 1
  NodeId beta = kNoNode;            // [b, heads or 1, rows, 1]; kNoNode: no delta
  NodeId state = kNoNode;           // [b, heads, d_k, d_v]
  double scale = 1;
  // Not kNoNode: positions belong to several texts, one behind another, and b is 1 but in `state`. i64
  // [rows]: whose each is; one of no text changes no state.
  NodeId text = kNoNode;
};
struct RecurrenceResult {
  NodeId y = kNoNode;          // [b, heads of q, rows, d_v]
  NodeId state = kNoNode;      // after the last position
  std::vector<NodeId> deltas;  // [b, heads, 1, d_v] a position: what its key has put into the state
};
RecurrenceResult Recur(ir::Builder& b, const Recurrence& r);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_LINEAR_RECURRENCE_H_
