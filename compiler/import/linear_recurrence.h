// A state [d_k, d_v] for each head that every position updates and reads, expanded position by position; the
// operators of linear attention share it.
#pragma once

#include <string>
#include <vector>

#include "compiler/import/op_context.h"

namespace rondo::importer {

// How a position updates the state. With `gated`, the state decays first. With `delta`, the value that the
// state already has for the key is subtracted from the new value.
struct UpdateRule {
  bool gated = false, delta = false;
};
// The attribute update_rule: linear, gated, delta or gated_delta, which is the default.
Result<UpdateRule> ReadUpdateRule(OpContext& c);

// kUnsupported if a run has more positions than can be unrolled.
Status CheckPositions(int64_t rows);

// All f32, of `rows` positions. The heads of q may be a multiple of the others'.
struct Recurrence {
  NodeId q = kNoNode, k = kNoNode;  // [b, heads, rows, d_k]
  NodeId v = kNoNode;               // [b, heads, rows, d_v]
  NodeId decay = kNoNode;           // factors [b, heads or 1, rows, d_k or 1]; kNoNode: 1
  NodeId beta = kNoNode;            // [b, heads or 1, rows, 1]; kNoNode: no delta
  NodeId state = kNoNode;           // [b, heads, d_k, d_v]
  double scale = 1;
  // If not kNoNode: positions belong to several texts, one after another, and b is 1 except in `state`. i64
  // [rows]: the text of each position. A position of no text changes no state.
  NodeId text = kNoNode;
};
struct RecurrenceResult {
  NodeId y = kNoNode;          // [b, heads of q, rows, d_v]
  NodeId state = kNoNode;      // after the last position
  std::vector<NodeId> states;  // after each
  std::vector<NodeId> deltas;  // [b, heads, 1, d_v] per position: the value that its key added to the state
};
RecurrenceResult Recur(ir::Builder& b, const Recurrence& r);

// The attribute state_window: the number of states that the operator's state holds, those of the last
// positions of a run in order. 0: only the last one, without an axis for them. kCorrupt beyond the operator's
// limits.
Result<int64_t> ReadStateWindow(const OpContext& c);
// The state of shape `held` with which a run begins: input `i` itself, or with a window the last state in it
// ([window, held...]). kCorrupt if the input has another shape.
Result<NodeId> PastOfWindow(OpContext& c, int i, int64_t window, const Shape& held);
// The operator's state output, from the states after each position of a run (at least one): the last one, or
// [window, ...], which starts with zeros if the run has fewer positions.
NodeId StatesOfWindow(ir::Builder& b, const std::vector<NodeId>& states, int64_t window);

}  // namespace rondo::importer
