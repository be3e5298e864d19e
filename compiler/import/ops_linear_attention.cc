// LinearAttention of com.microsoft and, from opset 27 on, of ONNX.
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/linear_recurrence.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

enum Input { kQuery, kKey, kValue, kPast, kDecay, kBeta };

struct Linear {
  int64_t batch = 0, rows = 0, q_heads = 0, k_heads = 0, heads = 0, key = 0, value = 0;
  UpdateRule rule;
  double scale = 0;
  int64_t window = 0;
};

Result<Linear> ReadLinear(OpContext& c) {
  Linear l;
  RONDO_ASSIGN_OR_RETURN(l.rule, ReadUpdateRule(c));
  RONDO_ASSIGN_OR_RETURN(l.window, ReadStateWindow(c));
  for (int i : {kQuery, kKey, kValue}) {
    RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
    RONDO_RETURN_IF_ERROR(c.RequireRank(i, 3, 3));
    RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, i));
  }
  const Shape q = c.shape(kQuery), k = c.shape(kKey), v = c.shape(kValue);
  l.q_heads = c.Int("q_num_heads", 0), l.heads = c.Int("kv_num_heads", 0);
  bool fits = l.q_heads > 0 && l.heads > 0 && l.q_heads < (1 << 20) && l.heads < (1 << 20) &&
              (l.q_heads % l.heads == 0 || l.heads % l.q_heads == 0) && q.elements() > 0 &&
              v.elements() > 0 && q[2] % l.q_heads == 0 && v[2] % l.heads == 0 && k[0] == q[0] &&
              v[0] == q[0] && k[1] == q[1] && v[1] == q[1];
  if (fits) {  // keys may have fewer heads than values, independent of the queries
    l.key = q[2] / l.q_heads, l.k_heads = k[2] / l.key;
    fits = l.k_heads > 0 && k[2] == l.k_heads * l.key && l.heads % l.k_heads == 0;
  }
  if (!fits) {
    return Status::Error(Code::kCorrupt, "queries %s, keys %s and values %s in %lld and %lld heads",
                         Text(q).c_str(), Text(k).c_str(), Text(v).c_str(), static_cast<long long>(l.q_heads),
                         static_cast<long long>(l.heads));
  }
  RONDO_RETURN_IF_ERROR(CheckPositions(q[1]));
  l.batch = q[0], l.rows = q[1], l.value = v[2] / l.heads;
  l.scale = c.Float("scale", 0);
  if (l.scale == 0) l.scale = 1.0 / std::sqrt(static_cast<double>(l.key));
  return l;
}

// Input `i` [b, rows, heads * n] as f32 [b, heads, rows, n].
NodeId Heads(OpContext& c, int i, int64_t heads) {
  const Shape s = c.shape(i);
  NodeId x = c.b.Reshape(c.b.Cast(c.In(i), DType::kF32), {s[0], s[1], heads, s[2] / heads});
  return c.b.Transpose(x, {0, 2, 1, 3});
}

// The factor of a position for the state, or for its update: f32 [b, heads or 1, rows, n].
Result<NodeId> Gate(OpContext& c, int i, const Linear& l, bool by_key) {
  if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  const Shape s = c.shape(i);
  const bool each = s.rank == 3 && s[2] == l.heads, one = s.rank == 3 && s[2] == 1 && !by_key;
  const bool keys = s.rank == 3 && s[2] == l.heads * l.key && by_key;
  if (s.rank != 3 || s[0] != l.batch || s[1] != l.rows || (!each && !one && !keys))
    return Status::Error(Code::kCorrupt, "input %d of shape %s", i, Text(s).c_str());
  return Heads(c, i, one && !each ? 1 : l.heads);
}

Status LinearAttention(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(Linear l, ReadLinear(c));
  Recurrence r;
  r.q = Heads(c, kQuery, l.q_heads), r.k = Heads(c, kKey, l.k_heads), r.v = Heads(c, kValue, l.heads);
  if (l.k_heads < l.heads) r.k = RepeatEach(b, r.k, 1, l.heads / l.k_heads);
  if (l.q_heads < l.heads) r.q = RepeatEach(b, r.q, 1, l.heads / l.q_heads);
  if (l.rule.gated) {
    RONDO_ASSIGN_OR_RETURN(r.decay, Gate(c, kDecay, l, true));
    r.decay = b.Unary(TapeOp::kExp, r.decay);
  }
  if (l.rule.delta) {
    RONDO_ASSIGN_OR_RETURN(r.beta, Gate(c, kBeta, l, false));
  }
  const Shape held = {l.batch, l.heads, l.key, l.value};
  r.state = b.Expand(b.Scalar(DType::kF32, 0), held);
  if (c.Has(kPast)) {
    RONDO_RETURN_IF_ERROR(c.RequireFloat(kPast));
    RONDO_ASSIGN_OR_RETURN(const NodeId past, PastOfWindow(c, kPast, l.window, held));
    r.state = b.Cast(past, DType::kF32);
  }
  r.scale = l.scale;
  const RecurrenceResult out = Recur(b, r);
  const Shape s = b.shape(out.y);
  const NodeId y = b.Reshape(b.Transpose(out.y, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
  c.Set(0, b.Cast(y, c.dtype(kQuery)));
  const NodeId states = StatesOfWindow(b, out.states, l.window);
  c.Set(1, b.Cast(states, c.Has(kPast) ? c.dtype(kPast) : c.dtype(kQuery)));
  return Status::Ok();
}

// The decay and beta for LinearAttention: scale * softplus(a + bias) and sigmoid(b), in f32.
Status LinearAttentionGate(OpContext& c) {
  enum { kA, kGateBias, kDecayScale, kB };
  Builder& b = c.b;
  const Shape s = c.shape(kA);
  for (int i : {kA, kGateBias, kDecayScale}) RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kA, 1, kMaxRank));
  for (int i : {kGateBias, kDecayScale}) {
    if (c.rank(i) != 1 || c.shape(i)[0] != s[s.rank - 1])
      return Status::Error(Code::kCorrupt, "input %d of shape %s for gates of %s", i,
                           Text(c.shape(i)).c_str(), Text(s).c_str());
  }
  const auto wide = [&](int i) { return b.Cast(c.In(i), DType::kF32); };
  c.Set(0, b.Cast(b.Mul(wide(kDecayScale), Softplus(b, b.Add(wide(kA), wide(kGateBias)))), c.dtype(kA)));
  if (!c.Wants(1)) return Status::Ok();
  if (!c.Has(kB)) return Status::Error(Code::kCorrupt, "the output beta needs the input b");
  RONDO_RETURN_IF_ERROR(c.RequireSameType(kA, kB));
  c.Set(1, b.Cast(Sigmoid(b, wide(kB)), c.dtype(kB)));
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"LinearAttentionGate", 3, LinearAttentionGate, 1, kLatest, "com.microsoft"},
    {"LinearAttention", 3, LinearAttention, 27},
    {"LinearAttention", 3, LinearAttention, 1, kLatest, "com.microsoft"},
};

}  // namespace

Span<const OpRow> LinearAttentionOps() { return kOps; }

}  // namespace rondo::importer
