#include "compiler/import/linear_recurrence.h"

#include <algorithm>

#include "compiler/import/decompose.h"

namespace rondo::importer {
namespace {

// Row t of x [b, h, rows, n] as a row [b, h, 1, n], or as a column [b, h, n, 1].
NodeId RowAt(ir::Builder& b, NodeId x, int64_t t) { return b.Slice(x, 2, t, 1, 1); }
NodeId ColumnAt(ir::Builder& b, NodeId x, int64_t t) { return b.Transpose(RowAt(b, x, t), {0, 1, 3, 2}); }

}  // namespace

Result<UpdateRule> ReadUpdateRule(OpContext& c) {
  const std::string rule = c.String("update_rule", "gated_delta");
  const UpdateRule is = {rule == "gated" || rule == "gated_delta", rule == "delta" || rule == "gated_delta"};
  if (is.gated || is.delta || rule == "linear") return is;
  return Status::Error(Code::kCorrupt,
                       "update_rule \"%.40s\" is none of linear, gated, delta and gated_delta", rule.c_str());
}

Status CheckPositions(int64_t rows) {
  constexpr int64_t kMostPositions = 128;
  if (rows <= kMostPositions) return Status::Ok();
  return Status::Error(
      Code::kUnsupported,
      "%lld positions in a run, each of which is written out; the limit is %lld: give --shape "
      "fewer and run the prompt in parts, over the state",
      static_cast<long long>(rows), static_cast<long long>(kMostPositions));
}

RecurrenceResult Recur(ir::Builder& b, const Recurrence& r) {
  RecurrenceResult out;
  const Shape held = b.shape(r.state);
  const int64_t rows = b.shape(r.q)[2], repeats = b.shape(r.q)[1] / held[1];
  NodeId all = r.state;
  std::vector<NodeId> ys;
  for (int64_t t = 0; t < rows; ++t) {
    NodeId state = all, mine = kNoNode;
    if (r.text != kNoNode) {
      const NodeId at = b.Slice(r.text, 0, t, 1, 1);
      mine = b.Reshape(b.Binary(TapeOp::kEqual, b.Iota({held[0]}, 0), at), {held[0], 1, 1, 1});
      state = b.Gather(all, Clamp(b, at, 0, static_cast<double>(held[0] - 1)), 0, false);
    }
    if (r.decay != kNoNode) state = b.Mul(state, ColumnAt(b, r.decay, t));
    NodeId add = RowAt(b, r.v, t);
    if (r.beta != kNoNode) add = b.Mul(b.Sub(add, b.MatMul(RowAt(b, r.k, t), state)), RowAt(b, r.beta, t));
    out.deltas.push_back(add);
    state = b.Add(state, b.Mul(ColumnAt(b, r.k, t), add));
    all = mine == kNoNode ? state : b.Select(mine, state, all);
    out.states.push_back(all);
    ys.push_back(b.MatMul(RowAt(b, r.q, t), repeats > 1 ? RepeatEach(b, state, 1, repeats) : state));
  }
  out.y = b.BinaryScalar(TapeOp::kMul, b.Concat(ys, 2), r.scale);
  out.state = all;
  return out;
}

Result<int64_t> ReadStateWindow(const OpContext& c) {
  constexpr int64_t kMost = 8;
  const int64_t window = c.Int("state_window", 0);
  if (window >= 0 && window <= kMost) return window;
  return Status::Error(Code::kCorrupt, "state_window %lld: from 0 to %lld are possible",
                       static_cast<long long>(window), static_cast<long long>(kMost));
}

Result<NodeId> PastOfWindow(OpContext& c, int i, int64_t window, const Shape& held) {
  Shape all = held;
  if (window > 0) {
    all = Shape{};
    all.dims[all.rank++] = window;
    for (const int64_t d : held) all.dims[all.rank++] = d;
  }
  if (!(c.shape(i) == all))
    return Status::Error(Code::kCorrupt, "past_state of shape %s; %s is needed", Text(c.shape(i)).c_str(),
                         Text(all).c_str());
  if (window == 0) return c.In(i);
  return c.b.Squeeze(c.b.Slice(c.In(i), 0, window - 1, 1, 1), 0);
}

NodeId StatesOfWindow(ir::Builder& b, const std::vector<NodeId>& states, int64_t window) {
  if (window == 0) return states.back();
  std::vector<NodeId> slots;
  for (int64_t at = std::ssize(states) - window; at < std::ssize(states); ++at) {
    const NodeId state = states[static_cast<size_t>(std::max<int64_t>(at, 0))];
    const NodeId none = b.Expand(b.Scalar(b.dtype(state), 0), b.shape(state));
    slots.push_back(b.Unsqueeze(at < 0 ? none : state, 0));
  }
  return b.Concat(slots, 0);
}

}  // namespace rondo::importer
