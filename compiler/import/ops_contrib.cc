// Operators of com.microsoft that ONNX Runtime's tools leave in models of images, diffusion and T5: norms
// over groups of channels that are last, biases put on, and others of a few steps.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

Status DoesNotFit(const OpContext& c, int i, const Shape& to) {
  return Status::Error(Code::kCorrupt, "input %d of shape %s does not fit %s", i, Text(c.shape(i)).c_str(),
                       Text(to).c_str());
}

// Input `i`, one number for each of `count`, as f32.
Result<NodeId> Vector(OpContext& c, int i, int64_t count) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  if (!(c.shape(i) == Shape({count}))) return DoesNotFit(c, i, Shape({count}));
  return c.b.Cast(c.In(i), DType::kF32);
}

// X [n, h, w, c] (or channels first), gamma, beta; SkipGroupNorm's norm is of the sum with skip [n, h, w, c],
// [n, 1, 1, c] or [n, c] and a bias [c], rounded to X's type, which is output 1.
template <bool kSkip>
Status GroupNorm(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 4, 4));
  const bool last = c.Int("channels_last", 1) != 0;
  const int64_t groups = c.Int("groups", 0), activation = c.Int("activation", 0);
  const Shape given = c.shape(0);
  const int64_t channels = given[last ? 3 : 1];
  if (given.elements() == 0 || groups < 1 || channels % groups != 0 || activation < 0 || activation > 1)
    return Status::Error(Code::kCorrupt, "X of shape %s in %lld groups, with the activation %lld",
                         Text(given).c_str(), static_cast<long long>(groups),
                         static_cast<long long>(activation));
  NodeId x = Widen(b, last ? c.In(0) : b.Transpose(c.In(0), {0, 2, 3, 1}));
  const Shape s = b.shape(x);
  if (kSkip) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 3));
    NodeId skip = c.In(3);
    const Shape of = c.shape(3), each{s[0], 1, 1, s[3]};
    if (of == Shape({s[0], s[3]})) {
      skip = b.Reshape(skip, each);
    } else if (!last && of == given) {
      skip = b.Transpose(skip, {0, 2, 3, 1});
    } else if (!(of == each) && !(last && of == s)) {
      return DoesNotFit(c, 3, given);
    }
    x = b.Add(x, Widen(b, skip));
    if (c.Has(4)) {
      RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 4));
      RONDO_ASSIGN_OR_RETURN(const NodeId bias, Vector(c, 4, channels));
      x = b.Add(x, bias);
    }
    x = b.Cast(x, c.dtype(0));
    if (c.Wants(1)) c.Set(1, last ? x : b.Transpose(x, {0, 3, 1, 2}));
    x = Widen(b, x);
  }
  NodeId y = b.Reshape(x, {s[0], s[1] * s[2], groups, s[3] / groups});
  y = b.Reshape(Standardise(b, y, {1, 3}, c.Float("epsilon", 1e-5f)), s);
  RONDO_ASSIGN_OR_RETURN(const NodeId gamma, Vector(c, 1, channels));
  RONDO_ASSIGN_OR_RETURN(const NodeId beta, Vector(c, 2, channels));
  y = b.Add(b.Mul(y, gamma), beta);
  if (activation == 1) y = Silu(b, y);
  y = b.Cast(y, c.dtype(0));
  return c.Give(last ? y : b.Transpose(y, {0, 3, 1, 2}));
}

// x + bias + skip.
Status BiasAdd(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  for (const int i : {1, 2}) RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  const Shape s = c.shape(0);
  if (!(c.shape(2) == s)) return DoesNotFit(c, 2, s);
  RONDO_ASSIGN_OR_RETURN(const NodeId bias, Vector(c, 1, s[s.rank - 1]));
  const NodeId y = c.b.Add(c.b.Add(Widen(c.b, c.In(0)), bias), Widen(c.b, c.In(2)));
  return c.Give(c.b.Cast(y, c.dtype(0)));
}

// Of x + bias [.., d] the first half times the gelu of the second.
Status BiasSplitGelu(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  const Shape s = c.shape(0);
  const int last = s.rank - 1;
  if (s[last] % 2 != 0)
    return Status::Error(Code::kCorrupt, "%lld features, which have no halves",
                         static_cast<long long>(s[last]));
  RONDO_ASSIGN_OR_RETURN(const NodeId bias, Vector(c, 1, s[last]));
  const NodeId x = b.Add(Widen(b, c.In(0)), bias);
  const int64_t half = s[last] / 2;
  const NodeId y = b.Mul(b.Slice(x, last, 0, 1, half), GeluErf(b, b.Slice(x, last, half, 1, half)));
  return c.Give(b.Cast(y, c.dtype(0)));
}

// The softmax, over all dims from `axis` on, of data + bias. A bias of fewer numbers than data is one for
// every so many dims: those between it and `axis` (is_inner_broadcast), or those before it.
Status BiasSoftmax(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  const Shape s = c.shape(0);
  RONDO_ASSIGN_OR_RETURN(const int axis, c.Axis(c.Int("axis", 1), s.rank));
  int64_t rows = 1, width = 1;
  for (int d = 0; d < s.rank; ++d) (d < axis ? rows : width) *= s[d];
  const int64_t count = c.shape(1).elements();
  if (rows * width == 0 || count == 0 || count % width != 0 || rows % (count / width) != 0)
    return DoesNotFit(c, 1, s);
  const int64_t own = count / width, times = rows / own;
  const bool inner = c.Int("is_inner_broadcast", 1) != 0;
  const Shape split = inner ? Shape({own, times, width}) : Shape({times, own, width});
  NodeId bias = b.Reshape(Widen(b, c.In(1)), inner ? Shape({own, 1, width}) : Shape({1, own, width}));
  const NodeId y = Softmax(b, b.Add(b.Reshape(Widen(b, c.In(0)), split), bias), 2);
  return c.Give(b.Cast(b.Reshape(y, s), c.dtype(0)));
}

Status GemmFastGelu(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "MatMul", 13, {c.In(0), c.In(1)}));
  y = Widen(b, y);
  if (c.Has(2)) {
    const Shape s = b.shape(y);
    if (s.rank == 0) return DoesNotFit(c, 2, s);
    RONDO_ASSIGN_OR_RETURN(const NodeId bias, Vector(c, 2, s[s.rank - 1]));
    y = b.Add(y, bias);
  }
  return c.Give(b.Cast(GeluTanh(b, y), c.dtype(0)));
}

// Angles [b, s, d], and queries and keys [b, h, s, d] with what each is turned by: x * cos + turned * sin.
// Cosines and sines are rounded to their type first.
Status GemmaRotaryEmbedding(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 3));
  const Shape e = c.shape(0);
  NodeId factors[2];
  for (const int i : {0, 1}) {
    NodeId x = b.Unary(i == 0 ? TapeOp::kCos : TapeOp::kSin, b.Cast(c.In(0), DType::kF32));
    factors[i] = b.Unsqueeze(b.Cast(x, c.dtype(1)), 1);
  }
  for (const int i : {1, 3}) {
    for (const int part : {i, i + 1}) {
      RONDO_RETURN_IF_ERROR(c.RequireFloat(part));
      RONDO_RETURN_IF_ERROR(c.RequireSameType(1, part));
      RONDO_RETURN_IF_ERROR(c.RequireRank(part, 4, 4));
      const Shape s = c.shape(part);
      if (s[0] != e[0] || s[2] != e[1] || s[3] != e[2] || !(s == c.shape(i))) return DoesNotFit(c, part, e);
    }
    c.Set(i / 2, b.Add(b.Mul(c.In(i), factors[0]), b.Mul(c.In(i + 1), factors[1])));
  }
  return Status::Ok();
}

Status ExpandDims(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> axis, c.ConstantInts(1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 0, kMaxRank - 1));
  if (axis.size() != 1) return Status::Error(Code::kCorrupt, "axis has %zu numbers", axis.size());
  RONDO_ASSIGN_OR_RETURN(const int at, c.Axis(axis[0], c.rank(0) + 1));
  return c.Give(c.b.Unsqueeze(c.In(0), at));
}

// Complex numbers [.., 2]; of those of B the conjugates, if kConjugate.
template <bool kConjugate>
Status ComplexMul(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  for (const int i : {0, 1}) {
    RONDO_RETURN_IF_ERROR(c.RequireRank(i, 1, kMaxRank));
    if (c.shape(i)[c.rank(i) - 1] != 2) return DoesNotFit(c, i, Shape({2}));
  }
  RONDO_ASSIGN_OR_RETURN(const Shape s, c.Broadcast(c.shape(0), c.shape(1)));
  const NodeId x = b.Expand(c.In(0), s), y = b.Expand(c.In(1), s);
  const int last = s.rank - 1;
  const NodeId re[] = {b.Slice(x, last, 0, 1, 1), b.Slice(y, last, 0, 1, 1)},
               im[] = {b.Slice(x, last, 1, 1, 1), b.Slice(y, last, 1, 1, 1)};
  const NodeId both = b.Mul(im[0], im[1]), rest = b.Mul(re[0], im[1]);
  const NodeId real = kConjugate ? b.Add(b.Mul(re[0], re[1]), both) : b.Sub(b.Mul(re[0], re[1]), both);
  const NodeId cross = b.Mul(im[0], re[1]);
  return c.Give(b.Concat({real, kConjugate ? b.Sub(cross, rest) : b.Add(rest, cross)}, last));
}

// ------------------------------------------------------------------------ biases by distance

// T5's bias of scores, [1, heads, queries, keys]: by how far a key is from its query, in buckets, those
// beyond half of them wider and wider up to max_distance (transformers' _relative_position_bucket).
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
  // One for each distance; which of them, of each pair.
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
// 1, 1]: rel_pos times gates of each query, as WavLM has them.
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
  RONDO_ASSIGN_OR_RETURN(const NodeId bias, Vector(c, 1, s[2]));
  RONDO_ASSIGN_OR_RETURN(const NodeId added, Vector(c, 4, w[1]));
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

// ------------------------------------------------------------------------ convolutions

Status NhwcMaxPool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, kMaxRank));
  RONDO_ASSIGN_OR_RETURN(const NodeId y, CallOne(c, "MaxPool", 12, {ChannelsFirst(c.b, c.In(0))}));
  return c.Give(ChannelsLast(c.b, y));
}

// W is as Conv has it, [outputs, inputs, ...]: X and Y alone have their channels last.
Status NhwcConv(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, kMaxRank));
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "Conv", 11, {ChannelsFirst(c.b, c.In(0)), c.In(1), c.In(2)}));
  return c.Give(ChannelsLast(c.b, y));
}

// Rows of several texts one behind the other, [rows, channels], where text i is rows ends[i] up to ends[i +
// 1]; each text has `past` [texts, channels, before] before its first row. Taps are `dilation` rows apart.
Status VarlenCausalConvWithState(OpContext& c) {
  Builder& b = c.b;
  enum Inputs { kX, kKernel, kEnds, kBias, kPast, kCaptured };
  if (!c.Has(kPast)) return Status::Error(Code::kCorrupt, "input %d is missing", kPast);
  for (const int i : {kX, kKernel, kPast}) RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(kEnds));
  const Shape x = c.shape(kX), w = c.shape(kKernel), p = c.shape(kPast);
  const int64_t dilation = c.Int("dilation", 1), slots = c.Int("state_update_capacity", 0);
  const std::string activation = c.String("activation", "none");
  if (c.Has(6) || c.Has(7) || (activation != "none" && activation != "silu" && activation != "swish"))
    return Status::Error(
        Code::kUnsupported,
        "kernel_delta, previous_mask or the activation \"%.40s\": rondo knows a kernel that stays, and "
        "silu, swish and none; export the model with these",
        activation.c_str());
  if (x.rank != 2 || w.rank != 3 || p.rank != 3 || x.elements() == 0 || w[0] != x[1] || w[1] != 1 ||
      w[2] < 1 || w[2] > 64 || dilation < 1 || dilation > (1 << 20) || p[1] != x[1] ||
      p[2] != (w[2] - 1) * dilation || p[0] < 1 || !(c.shape(kEnds) == Shape({p[0] + 1})) || slots < 0 ||
      slots > 8 || (slots > 0) != c.Has(kCaptured) || c.dtype(kPast) != c.dtype(kX) ||
      c.dtype(kKernel) != c.dtype(kX)) {
    return Status::Error(Code::kCorrupt,
                         "rows %s, a kernel %s, ends %s and a past %s with %lld slots do not fit",
                         Text(x).c_str(), Text(w).c_str(), Text(c.shape(kEnds)).c_str(), Text(p).c_str(),
                         static_cast<long long>(slots));
  }
  const int64_t rows = x[0], texts = p[0], before = p[2];
  const NodeId ends = b.Cast(c.In(kEnds), DType::kI64);
  // Row i of text t at place `at` of it, or, before its first, of its past: [n, channels].
  const NodeId past = b.Reshape(b.Transpose(c.In(kPast), {0, 2, 1}), {texts * before, x[1]});
  const auto read = [&](NodeId text, NodeId start, NodeId at) {
    const NodeId row = Clamp(b, b.Add(start, at), 0, static_cast<double>(rows - 1));
    const NodeId now = b.Gather(c.In(kX), row, 0, false);
    if (before == 0) return now;
    NodeId earlier = b.BinaryScalar(TapeOp::kAdd, at, static_cast<double>(before));
    earlier = Clamp(b, earlier, 0, static_cast<double>(before - 1));
    earlier = b.Add(b.BinaryScalar(TapeOp::kMul, text, static_cast<double>(before)), earlier);
    const NodeId was = b.Gather(past, earlier, 0, false);
    const NodeId begun = b.BinaryScalar(TapeOp::kLess, at, 0);
    return b.Select(b.Expand(b.Unsqueeze(begun, 1), b.shape(now)), was, now);
  };
  const NodeId row = b.Iota({rows}, 0);
  const NodeId later = b.Expand(b.Unsqueeze(row, 1), {rows, texts});
  NodeId ended = b.Expand(b.Reshape(b.Slice(ends, 0, 1, 1, texts), {1, texts}), {rows, texts});
  ended = b.Cast(b.Unary(TapeOp::kNot, b.Binary(TapeOp::kLess, later, ended)), DType::kI64);
  const NodeId text =
      Clamp(b, b.Reduce(ir::ReduceKind::kSum, ended, {1}, false), 0, static_cast<double>(texts - 1));
  const NodeId start = b.Gather(ends, text, 0, false);
  const NodeId place = b.Sub(row, start);
  NodeId y = kNoNode;
  for (int64_t tap = 0; tap < w[2]; ++tap) {
    const NodeId at = b.BinaryScalar(TapeOp::kSub, place, static_cast<double>((w[2] - 1 - tap) * dilation));
    const NodeId kernel = b.Reshape(Widen(b, b.Slice(c.In(kKernel), 2, tap, 1, 1)), {1, x[1]});
    const NodeId part = b.Mul(Widen(b, read(text, start, at)), kernel);
    y = y == kNoNode ? part : b.Add(y, part);
  }
  if (c.Has(kBias)) {
    RONDO_ASSIGN_OR_RETURN(const NodeId bias, Vector(c, kBias, x[1]));
    y = b.Add(y, bias);
  }
  if (activation != "none") y = Silu(b, y);
  c.Set(0, b.Cast(y, c.dtype(kX)));
  const NodeId first = b.Slice(ends, 0, 0, 1, texts), count = b.Sub(b.Slice(ends, 0, 1, 1, texts), first);
  // [texts, n] of each text, and row after row.
  const auto each = [&](NodeId of, int64_t n) {
    return b.Reshape(b.Expand(b.Unsqueeze(of, 1), {texts, n}), {texts * n});
  };
  const auto line = [&](int64_t n) { return b.Reshape(b.Iota({texts, n}, 1), {texts * n}); };
  if (c.Wants(1)) {
    NodeId kept = c.In(kPast);
    if (before > 0) {
      const NodeId at =
          b.BinaryScalar(TapeOp::kSub, b.Add(each(count, before), line(before)), static_cast<double>(before));
      kept = read(each(b.Iota({texts}, 0), before), each(first, before), at);
      kept = b.Transpose(b.Reshape(kept, {texts, before, x[1]}), {0, 2, 1});
    }
    c.Set(1, kept);
  }
  if (c.Wants(2)) {
    if (slots == 0)
      return Status::Error(Code::kCorrupt, "state_update is wanted, and state_update_capacity is 0");
    RONDO_RETURN_IF_ERROR(c.RequireInteger(kCaptured));
    if (!(c.shape(kCaptured) == Shape({texts}))) return DoesNotFit(c, kCaptured, Shape({texts}));
    const NodeId most = b.Binary(TapeOp::kMin, b.Cast(c.In(kCaptured), DType::kI64), count);
    const NodeId taken = b.Binary(TapeOp::kLess, line(slots), each(most, slots));
    const NodeId now = read(each(b.Iota({texts}, 0), slots), each(first, slots), line(slots));
    const NodeId none = b.Expand(b.Scalar(c.dtype(kX), 0), b.shape(now));
    c.Set(2, b.Reshape(b.Select(b.Expand(b.Unsqueeze(taken, 1), b.shape(now)), now, none),
                       {texts, slots, x[1]}));
  }
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"BiasAdd", 3, BiasAdd, 1, kLatest, kDomain},
    {"BiasSoftmax", 2, BiasSoftmax, 1, kLatest, kDomain},
    {"BiasSplitGelu", 2, BiasSplitGelu, 1, kLatest, kDomain},
    {"ComplexMul", 2, ComplexMul<false>, 1, kLatest, kDomain},
    {"ComplexMulConj", 2, ComplexMul<true>, 1, kLatest, kDomain},
    {"ExpandDims", 2, ExpandDims, 1, kLatest, kDomain},
    {"GatedRelativePositionBias", 6, GatedRelativePositionBias, 1, kLatest, kDomain},
    {"GemmFastGelu", 2, GemmFastGelu, 1, kLatest, kDomain},
    {"GemmaRotaryEmbedding", 5, GemmaRotaryEmbedding, 1, kLatest, kDomain},
    {"GroupNorm", 3, GroupNorm<false>, 1, kLatest, kDomain},
    {"NhwcConv", 2, NhwcConv, 1, kLatest, kDomain},
    {"NhwcMaxPool", 1, NhwcMaxPool, 1, kLatest, kDomain},
    {"RelativePositionBias", 3, RelativePositionBias, 1, kLatest, kDomain},
    {"SkipGroupNorm", 4, GroupNorm<true>, 1, kLatest, kDomain},
    {"VarlenCausalConvWithState", 3, VarlenCausalConvWithState, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> ContribOps() { return kOps; }

}  // namespace rondo::importer
