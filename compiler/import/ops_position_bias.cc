// Biases of attention scores by the distance between a query and a key (T5, WavLM).
#include <algorithm>
#include <cmath>

#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// T5's bias of scores, [1, heads, queries, keys]. It depends on the distance of a key from its query, in
// buckets; the second half of the buckets grow wider up to max_distance (transformers'
// _relative_position_bucket).
Status RelativePositionBias(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 2));
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> rows, c.ConstantInts(1));
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> keys, c.ConstantInts(2));
  const int64_t most = c.Int("max_distance", 0);
  const bool both = c.Int("is_bidirectional", 0) != 0;
  const int64_t all = c.shape(0)[0], heads = c.shape(0)[1], each = both ? all / 2 : all, exact = each / 2;
  if (rows.size() != 1 || keys.size() != 1 || rows[0] < 1 || keys[0] != rows[0] || heads < 1 || exact < 1 ||
      most <= exact || rows[0] > (1 << 14)) {
    return Status::Error(
        Code::kUnsupported,
        "a table of shape %s for distances up to %lld, of %lld queries and keys: rondo needs as "
        "many keys as queries, up to 16384, known when it compiles, and more distances than buckets",
        Text(c.shape(0)).c_str(), static_cast<long long>(most),
        static_cast<long long>(rows.size() == 1 ? rows[0] : -1));
  }
  // One bias per distance; then each pair selects its own.
  const int64_t n = rows[0];
  std::vector<int64_t> bucket;
  for (int64_t apart = 1 - n; apart < n; ++apart) {  // key - query
    int64_t far = both ? std::abs(apart) : std::max<int64_t>(-apart, 0), of = both && apart > 0 ? each : 0;
    if (far >= exact) {
      const float beyond = std::log(static_cast<float>(far) / static_cast<float>(exact)) /
                           std::log(static_cast<float>(most) / static_cast<float>(exact));
      far = std::min(each - 1, exact + static_cast<int64_t>(beyond * static_cast<float>(each - exact)));
    }
    bucket.push_back(of + far);
  }
  const NodeId line = b.Transpose(Take(b, c.In(0), 0, bucket), {1, 0});  // [heads, 2 n - 1]
  const NodeId place =
      b.BinaryScalar(TapeOp::kAdd, b.Sub(b.Iota({n, n}, 1), b.Iota({n, n}, 0)), static_cast<double>(n - 1));
  return c.Give(b.Unsqueeze(b.Gather(line, place, 1, false), 0));
}

// query [b, s, h * d] and its bias, rel_pos [1, h, s, s], a projection [d, D] with its bias, and eco_a [1, h,
// 1, 1]: rel_pos times a gate of each query, as in WavLM.
Status GatedRelativePositionBias(OpContext& c) {
  Builder& b = c.b;
  if (c.Has(6)) return Status::Error(Code::kUnsupported, "token_offset: export the model with its padding");
  for (int i = 0; i < 6; ++i) RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 3));
  RONDO_RETURN_IF_ERROR(c.RequireRank(3, 2, 2));
  const Shape s = c.shape(0), w = c.shape(3);
  const int64_t heads = c.Int("num_heads", 0);
  if (heads < 1 || s.elements() == 0 || s[2] % heads != 0 || w[0] != s[2] / heads || w[1] < 2 ||
      w[1] % 2 != 0)
    return DoesNotFit(c, 3, s);
  if (!(c.shape(2) == Shape({1, heads, s[1], s[1]}))) return DoesNotFit(c, 2, s);
  if (!(c.shape(5) == Shape({1, heads, 1, 1}))) return DoesNotFit(c, 5, s);
  RONDO_ASSIGN_OR_RETURN(const NodeId bias, VectorInput(c, 1, s[2]));
  RONDO_ASSIGN_OR_RETURN(const NodeId added, VectorInput(c, 4, w[1]));
  NodeId q = b.Reshape(b.Add(Widen(b, c.In(0)), bias), {s[0], s[1], heads, w[0]});
  q = b.Transpose(q, {0, 2, 1, 3});
  NodeId gates =
      b.MatMul(q, b.Expand(b.Reshape(Widen(b, c.In(3)), {1, 1, w[0], w[1]}), {s[0], heads, w[0], w[1]}));
  gates = b.Reshape(b.Add(gates, added), {s[0], heads, s[1], 2, w[1] / 2});
  gates = Sigmoid(b, b.Reduce(ir::ReduceKind::kSum, gates, {4}, false));  // [b, h, s, 2]
  const NodeId u = b.Slice(gates, 3, 0, 1, 1), r = b.Slice(gates, 3, 1, 1, 1);
  NodeId y = b.BinaryScalar(TapeOp::kSub, b.Mul(r, Widen(b, c.In(5))), 1);
  y = b.BinaryScalar(TapeOp::kAdd, b.Mul(u, y), 2);
  return c.Give(b.Cast(b.Mul(y, Widen(b, c.In(2))), c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"RelativePositionBias", 3, RelativePositionBias, 1, kLatest, kDomain},
    {"GatedRelativePositionBias", 6, GatedRelativePositionBias, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> PositionBiasOps() { return kOps; }

}  // namespace rondo::importer
