// GatedDeltaNet of com.microsoft: LinearAttention with a separate dim for heads, states [d_v, d_k], gates
// computed by the operator itself, and texts of different lengths in a row.
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/linear_recurrence.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

enum Input { kQuery, kKey, kValue, kEnds, kDecay, kBeta, kState, kRates, kGateBias, kCaptured, kCapturing };

// Positions are `batch` texts of `rows` each, or with `ends` one row of all texts' positions.
struct Delta {
  int64_t texts = 0, batch = 0, rows = 0, key_heads = 0, heads = 0, key = 0, value = 0;
  Shape lead;  // dims of the inputs and the output before the heads
  bool ends = false;
  UpdateRule rule;
};

Status BadShape(OpContext& c, int i) {
  return Status::Error(Code::kCorrupt, "input %d of shape %s for queries of shape %s", i,
                       Text(c.shape(i)).c_str(), Text(c.shape(kQuery)).c_str());
}

Shape Followed(Shape lead, std::initializer_list<int64_t> dims) {
  for (int64_t d : dims) lead.dims[lead.rank++] = d;
  return lead;
}

// Reads heads and their sizes from the shapes of q, k and v, or of the packed input and the state.
Status ReadSizes(OpContext& c, Delta* d) {
  const Shape q = c.shape(kQuery);
  if (c.Has(kKey) != c.Has(kValue)) return Status::Error(Code::kCorrupt, "keys and values come together");
  const bool packed = !c.Has(kKey);
  if (packed && !c.Has(kState))
    return Status::Error(Code::kCorrupt, "packed queries need initial_state, which has the heads' sizes");
  RONDO_RETURN_IF_ERROR(c.RequireRank(kQuery, packed ? 2 : 3, packed ? 3 : 4));
  if (c.Has(kState)) RONDO_RETURN_IF_ERROR(c.RequireRank(kState, 4, 4));
  d->lead.rank = q.rank - (packed ? 1 : 2);
  for (int i = 0; i < d->lead.rank; ++i) d->lead.dims[i] = q[i];
  if (packed) {
    const Shape s = c.shape(kState);
    d->heads = s[1], d->value = s[2], d->key = s[3];
    const int64_t both = q[q.rank - 1] - d->heads * d->value;
    d->key_heads = d->key > 0 ? both / (2 * d->key) : 0;
    if (both <= 0 || both % (2 * d->key) != 0) return BadShape(c, kState);
  } else {
    for (int i : {kKey, kValue}) {
      RONDO_RETURN_IF_ERROR(c.RequireRank(i, q.rank, q.rank));
      RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, i));
    }
    const Shape v = c.shape(kValue);
    d->key_heads = q[q.rank - 2], d->key = q[q.rank - 1], d->heads = v[q.rank - 2], d->value = v[q.rank - 1];
    if (!(c.shape(kKey) == q)) return BadShape(c, kKey);
    if (!(v == Followed(d->lead, {d->heads, d->value}))) return BadShape(c, kValue);
  }
  if (q.elements() == 0 || d->heads < 1 || d->value < 1 || d->key_heads < 1 || d->heads % d->key_heads != 0)
    return Status::Error(Code::kCorrupt, "queries of shape %s: %lld heads of values over %lld of keys",
                         Text(q).c_str(), static_cast<long long>(d->heads),
                         static_cast<long long>(d->key_heads));
  return Status::Ok();
}

Status ReadTexts(OpContext& c, Delta* d) {
  d->ends = c.Has(kEnds);
  if (d->ends) {
    RONDO_RETURN_IF_ERROR(c.RequireInteger(kEnds));
    RONDO_RETURN_IF_ERROR(c.RequireRank(kEnds, 1, 1));
    d->texts = c.shape(kEnds)[0] - 1, d->batch = 1, d->rows = d->lead[0];
    if (d->lead.rank != 1 || d->texts < 1) return BadShape(c, kEnds);
  } else {
    if (d->lead.rank == 1 && !c.Has(kState))
      return Status::Error(Code::kCorrupt,
                           "without cu_seqlens and initial_state nothing says how many texts there are");
    d->texts = d->batch = d->lead.rank == 2 ? d->lead[0] : c.shape(kState)[0];
    d->rows = d->lead.rank == 2 ? d->lead[1] : d->texts > 0 ? d->lead[0] / d->texts : 0;
    if (d->rows < 1 || (d->lead.rank == 1 && d->rows * d->texts != d->lead[0])) return BadShape(c, kState);
  }
  if (c.Has(kState) && !(c.shape(kState) == Shape({d->texts, d->heads, d->value, d->key})))
    return BadShape(c, kState);
  return CheckPositions(d->rows);
}

// x [lead..., heads * n] or [lead..., heads, n] as f32 [batch, heads, rows, n].
NodeId Heads(Builder& b, NodeId x, const Delta& d, int64_t heads, int64_t n) {
  return b.Transpose(b.Reshape(b.Cast(x, DType::kF32), {d.batch, d.rows, heads, n}), {0, 2, 1, 3});
}

// 1 / sqrt(the sum of squares + 1e-12), as ONNX Runtime has it.
NodeId Normalised(Builder& b, NodeId x) {
  NodeId sum = b.Reduce(ir::ReduceKind::kSum, b.Mul(x, x), {3}, true);
  return b.Mul(x, b.Unary(TapeOp::kRsqrt, b.BinaryScalar(TapeOp::kAdd, sum, 1e-12)));
}

// A vector per head, or per head and feature, as [1, heads, 1, n or 1].
Result<NodeId> PerHead(OpContext& c, int i, const Delta& d, bool may_have_features) {
  if (!c.Has(i)) return Status::Error(Code::kCorrupt, "gate_activation needs input %d", i);
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  const int64_t count = c.shape(i).elements();
  const bool each = may_have_features && count == d.heads * d.key && count != d.heads;
  if (!each && count != d.heads) return BadShape(c, i);
  return c.b.Reshape(c.b.Cast(c.In(i), DType::kF32), {1, d.heads, 1, each ? d.key : 1});
}

// The decay factors of the state.
Result<NodeId> Decay(OpContext& c, const Delta& d) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kDecay));
  const bool each = c.shape(kDecay) == Followed(d.lead, {d.heads, d.key});
  if (!each && !(c.shape(kDecay) == Followed(d.lead, {d.heads}))) return BadShape(c, kDecay);
  NodeId x = Heads(b, c.In(kDecay), d, d.heads, each ? d.key : 1);
  const std::string gate = c.String("gate_activation", "none");
  if (gate == "none") return b.Unary(TapeOp::kExp, x);
  const bool softplus = gate == "softplus" || gate == "qwen";
  if (!softplus && gate != "sigmoid" && gate != "kda")
    return Status::Error(Code::kCorrupt, "gate_activation \"%.40s\" is none of none, softplus and sigmoid",
                         gate.c_str());
  RONDO_ASSIGN_OR_RETURN(NodeId rate, PerHead(c, kRates, d, false));
  RONDO_ASSIGN_OR_RETURN(const NodeId bias, PerHead(c, kGateBias, d, each));
  rate = b.Unary(TapeOp::kExp, rate);
  x = b.Add(x, bias);
  const double bound = c.Float("gate_lower_bound", -5.0f);
  x = softplus ? b.Unary(TapeOp::kNeg, b.Mul(rate, Softplus(b, x)))
               : b.BinaryScalar(TapeOp::kMul, Sigmoid(b, b.Mul(rate, x)), bound);
  return b.Unary(TapeOp::kExp, x);
}

Result<NodeId> Beta(OpContext& c, const Delta& d) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kBeta));
  if (!(c.shape(kBeta) == Followed(d.lead, {d.heads}))) return BadShape(c, kBeta);
  const NodeId x = Heads(c.b, c.In(kBeta), d, d.heads, 1);
  const std::string activation = c.String("beta_activation", "none");
  if (activation == "none") return x;
  if (activation == "sigmoid") return Sigmoid(c.b, x);
  return Status::Error(Code::kCorrupt, "beta_activation \"%.40s\" is none of none and sigmoid",
                       activation.c_str());
}

// By position, the number of its text, from the texts' beginnings and the last end: i64 [rows].
NodeId TextOf(OpContext& c, const Delta& d) {
  Builder& b = c.b;
  const NodeId ends = b.Slice(b.Cast(c.In(kEnds), DType::kI64), 0, 1, 1, d.texts);
  const NodeId past = b.Binary(TapeOp::kLessEqual, b.Unsqueeze(ends, 0), b.Unsqueeze(b.Iota({d.rows}, 0), 1));
  return b.Reduce(ir::ReduceKind::kSum, b.Cast(past, DType::kI64), {1}, false);
}

// The state updates of the first positions of each text: decays, keys and deltas, one kind after another.
// Absent positions, and those from capture_count on, hold any value.
Result<NodeId> Updates(OpContext& c, const Delta& d, const Recurrence& r, NodeId keys,
                       const std::vector<NodeId>& deltas) {
  Builder& b = c.b;
  const int64_t capacity = c.Int("state_update_capacity", 0), most = 8;
  if (capacity < 1 || capacity > most)
    return Status::Error(Code::kCorrupt,
                         "state_update of a state_update_capacity of %lld; 1 to %lld is needed",
                         static_cast<long long>(capacity), static_cast<long long>(most));
  if (d.ends)
    return Status::Error(
        Code::kUnsupported,
        "state_update of texts of different lengths (cu_seqlens): export the model without it");
  const int64_t count = std::min(capacity, d.rows);
  NodeId decay = r.decay;
  if (decay == kNoNode) decay = b.Expand(b.Scalar(DType::kF32, 1), {d.batch, d.heads, d.rows, 1});
  const std::vector<NodeId> first(deltas.begin(), deltas.begin() + count);
  std::vector<NodeId> parts;
  for (NodeId x : {b.Slice(decay, 2, 0, 1, count), b.Slice(keys, 2, 0, 1, count), b.Concat(first, 2)}) {
    x = b.PadConstant(x, b.Scalar(DType::kF32, 0), {0, 0, 0, 0}, {0, 0, capacity - count, 0});
    const Shape s = b.shape(x);
    parts.push_back(b.Reshape(b.Transpose(x, {0, 2, 1, 3}), {s[0], s[1] * s[2] * s[3]}));
  }
  const NodeId all = b.Concat(parts, 1);
  if (!c.Has(kCapturing)) return all;
  RONDO_RETURN_IF_ERROR(c.RequireInteger(kCapturing));
  if (c.shape(kCapturing).elements() != 1) return BadShape(c, kCapturing);
  const NodeId active = b.Reshape(c.In(kCapturing), Shape{});
  const NodeId off = b.Binary(TapeOp::kEqual, active, b.Scalar(b.dtype(active), 0));
  return b.Select(off, b.Scalar(DType::kF32, 0), all);
}

Status GatedDeltaNet(OpContext& c) {
  Builder& b = c.b;
  Delta d;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kQuery));
  RONDO_ASSIGN_OR_RETURN(d.rule, ReadUpdateRule(c));
  RONDO_RETURN_IF_ERROR(ReadSizes(c, &d));
  RONDO_RETURN_IF_ERROR(ReadTexts(c, &d));
  if (c.Has(kDecay) != d.rule.gated || c.Has(kBeta) != d.rule.delta)
    return Status::Error(Code::kCorrupt, "update_rule \"%s\" with%s decay and with%s beta",
                         c.String("update_rule", "gated_delta").c_str(), c.Has(kDecay) ? "" : "out",
                         c.Has(kBeta) ? "" : "out");
  Recurrence r;
  if (c.Has(kKey)) {
    r.q = Heads(b, c.In(kQuery), d, d.key_heads, d.key), r.k = Heads(b, c.In(kKey), d, d.key_heads, d.key);
    r.v = Heads(b, c.In(kValue), d, d.heads, d.value);
  } else {
    const int last = c.rank(kQuery) - 1;
    const int64_t columns = d.key_heads * d.key;
    const auto part = [&](int64_t from, int64_t count) {
      return b.Slice(c.In(kQuery), last, from, 1, count);
    };
    r.q = Heads(b, part(0, columns), d, d.key_heads, d.key);
    r.k = Heads(b, part(columns, columns), d, d.key_heads, d.key);
    r.v = Heads(b, part(2 * columns, d.heads * d.value), d, d.heads, d.value);
  }
  if (c.Int("qk_l2_norm", 0) != 0) r.q = Normalised(b, r.q), r.k = Normalised(b, r.k);
  const NodeId keys = r.k;
  r.q = RepeatEach(b, r.q, 1, d.heads / d.key_heads), r.k = RepeatEach(b, r.k, 1, d.heads / d.key_heads);
  if (d.rule.gated) {
    RONDO_ASSIGN_OR_RETURN(r.decay, Decay(c, d));
  }
  if (d.rule.delta) {
    RONDO_ASSIGN_OR_RETURN(r.beta, Beta(c, d));
  }
  r.state = b.Expand(b.Scalar(DType::kF32, 0), {d.texts, d.heads, d.key, d.value});
  if (c.Has(kState)) r.state = b.Transpose(b.Cast(c.In(kState), DType::kF32), {0, 1, 3, 2});
  r.scale = c.Float("scale", 0);
  if (r.scale == 0) r.scale = 1.0 / std::sqrt(static_cast<double>(d.key));
  if (d.ends) r.text = TextOf(c, d);
  const RecurrenceResult out = Recur(b, r);
  const NodeId y = b.Reshape(b.Transpose(out.y, {0, 2, 1, 3}), Followed(d.lead, {d.heads, d.value}));
  c.Set(0, b.Cast(y, c.dtype(kQuery)));
  c.Set(1, b.Transpose(out.state, {0, 1, 3, 2}));
  if (c.Wants(2)) {
    RONDO_ASSIGN_OR_RETURN(const NodeId updates, Updates(c, d, r, keys, out.deltas));
    c.Set(2, updates);
  }
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"GatedDeltaNet", 1, GatedDeltaNet, 1, kLatest, "com.microsoft"},
};

}  // namespace

Span<const OpRow> GatedDeltaOps() { return kOps; }

}  // namespace rondo::importer
