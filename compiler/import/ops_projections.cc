// com.microsoft operators that combine several matmuls of one input, which ONNX Runtime's optimizers fuse for
// GPUs.
#include "compiler/import/decompose.h"
#include "compiler/import/packed_blocks.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// The weights of a MatMulNBits without zero points: the first of its three inputs (codes, scales, an optional
// bias), and the attribute that holds the number of outputs.
struct Projection {
  int inputs;
  const char* outputs;
};

// x @ weights; input `weights` holds the codes, and the next input the scales.
Result<NodeId> ProjectBy(OpContext& c, NodeId x, const PackedBlocks& blocks, int weights) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(CheckBlocks(blocks));
  if (const Shape a = b.shape(x); a.rank < 1 || a[a.rank - 1] != blocks.k || a.elements() == 0) {
    return Status::Error(Code::kCorrupt, "A of shape %s; its last dimension must be K, %lld", Text(a).c_str(),
                         static_cast<long long>(blocks.k));
  }
  RONDO_ASSIGN_OR_RETURN(const NodeId w, Dequantised(c, blocks, weights, weights + 1, -1, c.dtype(0)));
  return b.MatMul(x, b.Transpose(w, {1, 0}));
}

// x @ weights + bias.
Result<NodeId> Project(OpContext& c, NodeId x, const Projection& by) {
  Builder& b = c.b;
  const PackedBlocks blocks = {c.Int(by.outputs, 0), c.Int("K", 0), c.Int("bits", 4), c.Int("block_size", 0)};
  const int bias = by.inputs + 2;
  RONDO_ASSIGN_OR_RETURN(const NodeId y, ProjectBy(c, x, blocks, by.inputs));
  if (!c.Has(bias)) return y;
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, bias));
  if (!(c.shape(bias) == Shape({blocks.n})))
    return Status::Error(Code::kCorrupt, "input %d of shape %s; a bias of %lld elements is needed", bias,
                         Text(c.shape(bias)).c_str(), static_cast<long long>(blocks.n));
  return b.Add(y, c.In(bias));
}

// Input 0 plus input 1 (the sum is output `sum`), with RMS normalisation if there is a scale (input 2).
Result<NodeId> Normalised(OpContext& c, int sum, float epsilon) {
  enum { kA, kSkip, kScale };
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kA));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kA, 1, kMaxRank));
  const Shape s = c.shape(kA);
  if ((c.Has(kSkip) || c.Wants(sum)) && !(c.Has(kSkip) && c.Has(kScale)))
    return Status::Error(Code::kCorrupt, "what is added, and the sum, need skip and norm_scale");
  if (!c.Has(kScale)) return c.In(kA);
  NodeId x = Widen(b, c.In(kA));
  if (c.Has(kSkip)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(kA, kSkip));
    if (!(c.shape(kSkip) == s))
      return Status::Error(Code::kCorrupt, "skip of shape %s for %s", Text(c.shape(kSkip)).c_str(),
                           Text(s).c_str());
    x = b.Add(x, Widen(b, c.In(kSkip)));
  }
  if (c.Wants(sum)) c.Set(sum, b.Cast(x, c.dtype(kA)));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(kA, kScale));
  if (s.elements() == 0 || !(c.shape(kScale) == Shape({s[s.rank - 1]})))
    return Status::Error(Code::kCorrupt, "norm_scale of shape %s for %s", Text(c.shape(kScale)).c_str(),
                         Text(s).c_str());
  const NodeId y = RmsNormalise(b, x, {s.rank - 1}, c.Float("epsilon", epsilon));
  return b.Cast(b.Mul(y, b.Cast(c.In(kScale), b.dtype(y))), c.dtype(kA));
}

// silu(x @ gate) * (x @ up), with x normalised or not.
Status MatMulNBitsMlp(OpContext& c) {
  Builder& b = c.b;
  if (const std::string name = c.String("activation", ""); name != "silu" && name != "swish") {
    return Status::Error(Code::kUnsupported,
                         "the activation \"%.40s\": rondo knows silu here; export the gate and the other "
                         "projection as two MatMulNBits",
                         name.c_str());
  }
  RONDO_ASSIGN_OR_RETURN(const NodeId x, Normalised(c, 1, 1e-5f));
  RONDO_ASSIGN_OR_RETURN(const NodeId gate, Project(c, x, {3, "N"}));
  RONDO_ASSIGN_OR_RETURN(const NodeId up, Project(c, x, {6, "N"}));
  return c.Give(b.Cast(b.Mul(Silu(b, Widen(b, gate)), Widen(b, up)), c.dtype(0)));
}

// Queries, keys and values of the normalised input.
Status MatMulNBitsQkv(OpContext& c) {
  if (!c.Has(2)) return Status::Error(Code::kCorrupt, "input 2 (norm_scale) is missing");
  RONDO_ASSIGN_OR_RETURN(const NodeId x, Normalised(c, 3, 1e-6f));
  constexpr Projection kEach[] = {{3, "Nq"}, {6, "Nkv"}, {9, "Nkv"}};
  for (int i = 0; i < 3; ++i) {
    RONDO_ASSIGN_OR_RETURN(const NodeId y, Project(c, x, kEach[i]));
    c.Set(i, y);
  }
  return Status::Ok();
}

// X @ W + X @ lora_A @ lora_B, all in blocks. An adapter may have no codes: without lora_B it adds
// nothing, and without lora_A it adds what lora_B makes of zeros.
Status MatMulNBitsQLoRA(OpContext& c) {
  enum { kX, kW, kScales, kLoraA, kLoraAScales, kLoraB, kLoraBScales };
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kX));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kX, 1, kMaxRank));
  const PackedBlocks base = {c.Int("N", 0), c.Int("K", 0), c.Int("bits", 4), c.Int("block_size", 0)};
  RONDO_ASSIGN_OR_RETURN(NodeId y, ProjectBy(c, c.In(kX), base, kW));
  if (c.shape(kLoraB).elements() > 0) {
    RONDO_RETURN_IF_ERROR(c.RequireRank(kLoraAScales, 2, 2));
    const int64_t rank = c.shape(kLoraAScales)[0], bits = c.Int("lora_bits", 4),
                  block = c.Int("lora_block_size", 0);
    const PackedBlocks down = {rank, base.k, bits, block}, up = {base.n, rank, bits, block};
    RONDO_RETURN_IF_ERROR(CheckBlocks(down));
    Shape between = c.shape(kX);
    between[between.rank - 1] = rank;
    NodeId low = b.Expand(b.Scalar(c.dtype(kX), 0), between);
    if (c.shape(kLoraA).elements() > 0) {
      RONDO_ASSIGN_OR_RETURN(low, ProjectBy(c, c.In(kX), down, kLoraA));
    }
    RONDO_ASSIGN_OR_RETURN(const NodeId more, ProjectBy(c, low, up, kLoraB));
    y = b.Add(y, more);
  }
  return c.Give(y);
}

// The first router_size columns of X @ W; of the other columns, the activated gate half times the other half.
Status RouterGateUpProj(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 2, 2));
  const Shape x = c.shape(0), w = c.shape(1);
  const int64_t routes = c.Int("router_size", 0), rest = w[1] - routes;
  if (x.elements() == 0 || x[x.rank - 1] != w[0] || routes < 1 || rest < 2 || rest % 2 != 0) {
    return Status::Error(Code::kCorrupt,
                         "X of shape %s, W of shape %s, of which %lld columns are the router's",
                         Text(x).c_str(), Text(w).c_str(), static_cast<long long>(routes));
  }
  if (const std::string name = c.String("activation", "swiglu"); name != "swiglu")
    return Status::Error(Code::kCorrupt, "activation \"%.40s\": only swiglu is defined", name.c_str());
  const NodeId y = b.MatMul(c.In(0), c.In(1));
  const int last = x.rank - 1;
  c.Set(0, b.Slice(y, last, 0, 1, routes));
  NodeId gate = Widen(b, b.Slice(y, last, routes, 1, rest / 2));
  NodeId up = Widen(b, b.Slice(y, last, routes + rest / 2, 1, rest / 2));
  if (const double limit = c.Float("limit", 0); limit > 0) {
    gate = b.BinaryScalar(TapeOp::kMin, gate, limit);
    up = Clamp(b, up, -limit, limit);
  }
  const NodeId open = Sigmoid(b, b.BinaryScalar(TapeOp::kMul, gate, c.Float("activation_alpha", 1)));
  up = b.BinaryScalar(TapeOp::kAdd, up, c.Float("activation_beta", 0));
  c.Set(1, b.Cast(b.Mul(b.Mul(gate, open), up), c.dtype(0)));
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"MatMulNBitsMlp", 1, MatMulNBitsMlp, 1, kLatest, kDomain},
    {"MatMulNBitsQLoRA", 7, MatMulNBitsQLoRA, 1, kLatest, kDomain},
    {"MatMulNBitsQkv", 1, MatMulNBitsQkv, 1, kLatest, kDomain},
    {"RouterGateUpProj", 2, RouterGateUpProj, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> ProjectionOps() { return kOps; }

}  // namespace rondo::importer
