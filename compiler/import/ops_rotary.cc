// Rotary embeddings of com.microsoft.
#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/rotary.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// Input 0 as [b, h, s, d]; `joined`: it was [b, s, h * d].
Result<NodeId> HeadsToRotate(OpContext& c, bool* joined) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 4));
  RONDO_RETURN_IF_ERROR(c.RequireRank(2, 2, 2));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(1));
  const int64_t rotated = c.Int("rotary_embedding_dim", 0), half = c.shape(2)[1];
  if (rotated != 0 && 2 * half != rotated) {
    return Status::Error(Code::kCorrupt, "a cache of shape %s for %lld rotated features",
                         Text(c.shape(2)).c_str(), static_cast<long long>(rotated));
  }
  *joined = c.rank(0) == 3;
  if (!*joined) return c.In(0);
  int64_t heads = c.Int("num_heads", 0);
  if (heads == 0 && rotated == 0 && half > 0) heads = c.shape(0)[2] / (2 * half);
  return SplitHeads(c, c.In(0), heads);
}

Status SetRotated(OpContext& c, NodeId x, const Angles& angles, bool joined) {
  RONDO_ASSIGN_OR_RETURN(NodeId y,
                         RotateHeads(c, x, angles.cosine, angles.sine, c.Int("interleaved", 0) != 0));
  return c.Give(joined ? JoinHeads(c.b, y) : y);
}

// x, positions ([1]: the first one; otherwise [b, s]), cosines and sines [positions, half].
// is_packed_batching only allows more rows than positions. scale has no effect in ONNX Runtime: it is part of
// the cosines and sines.
Status RotaryEmbedding(OpContext& c) {
  Builder& b = c.b;
  bool joined = false;
  RONDO_ASSIGN_OR_RETURN(NodeId x, HeadsToRotate(c, &joined));
  const int64_t rows = b.shape(x)[2];
  NodeId position = c.In(1);
  if (c.shape(1).elements() == 1 && c.rank(1) == 1) {
    position = b.Add(b.Cast(position, DType::kI64), b.Iota({rows}, 0));
    position = b.Reshape(position, {1, rows});
  }
  if (b.shape(position).rank != 2) return Status::Error(Code::kCorrupt, "positions do not fit");
  RONDO_ASSIGN_OR_RETURN(const Angles angles, AnglesAt(c, 2, 3, position));
  return SetRotated(c, x, angles, joined);
}

// For each of `half` angles, the position that it uses: time, row or column. Sections either follow each
// other, or alternate while rows and columns last, with time for the rest.
Result<std::vector<int64_t>> StreamsOfAngles(const OpContext& c, int64_t half) {
  const std::vector<int64_t> sections = c.Ints("mrope_section");
  const int64_t layout = c.Int("mrope_layout", 0);
  int64_t sum = 0;
  for (int64_t count : sections) sum += count < 0 || count > half ? half + 1 : count;
  if (sections.size() != 3 || sum != half || layout < 0 || layout > 1) {
    return Status::Error(Code::kCorrupt,
                         "mrope_section of %zu numbers and mrope_layout %lld: three are needed, %lld in all, "
                         "and a layout of 0 or 1",
                         sections.size(), static_cast<long long>(layout), static_cast<long long>(half));
  }
  std::vector<int64_t> streams(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const int64_t turn = i % 3, part = i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2;
    const bool in_turn = i < 3 * sections[static_cast<size_t>(turn)];
    streams[static_cast<size_t>(i)] = layout == 0 ? part : in_turn ? turn : 0;
  }
  return streams;
}

// RotaryEmbedding with positions [3, b, s] (of vision models).
Status MRotaryEmbedding(OpContext& c) {
  Builder& b = c.b;
  bool joined = false;
  RONDO_ASSIGN_OR_RETURN(NodeId x, HeadsToRotate(c, &joined));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 3, 3));
  if (c.shape(1)[0] != 3)
    return Status::Error(Code::kCorrupt, "positions of shape %s; [3, batch, positions] is needed",
                         Text(c.shape(1)).c_str());
  const int64_t half = c.shape(2)[1];
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> streams, StreamsOfAngles(c, half));
  const NodeId stream = b.Ints(DType::kI64, {half}, streams);
  Angles angles;
  for (int64_t i = 0; i < 3; ++i) {
    RONDO_ASSIGN_OR_RETURN(const Angles of, AnglesAt(c, 2, 3, b.Squeeze(b.Slice(c.In(1), 0, i, 1, 1), 0)));
    const NodeId own = b.Binary(TapeOp::kEqual, stream, b.Scalar(DType::kI64, static_cast<double>(i)));
    angles.cosine = i == 0 ? of.cosine : b.Select(own, of.cosine, angles.cosine);
    angles.sine = i == 0 ? of.sine : b.Select(own, of.sine, angles.sine);
  }
  return SetRotated(c, x, angles, joined);
}

// Angles [b, s, d], and queries and keys [b, h, s, d], each with its rotated copy: x * cos + rotated * sin.
// Cosines and sines are first rounded to their type.
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

constexpr OpRow kOps[] = {
    {"RotaryEmbedding", 4, RotaryEmbedding, 1, kLatest, kDomain},
    {"MRotaryEmbedding", 4, MRotaryEmbedding, 1, kLatest, kDomain},
    {"GemmaRotaryEmbedding", 5, GemmaRotaryEmbedding, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> RotaryOps() { return kOps; }

}  // namespace rondo::importer
