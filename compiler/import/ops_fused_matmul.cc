// com.microsoft operators that are a matmul with transposed operands, a scale, a bias or an activation.
#include <algorithm>

#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// activation(alpha * op(a) @ op(b)). A vector is one row of a or one column of b, and is never transposed.
Status FusedMatMul(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 1, kMaxRank));
  NodeId sides[2] = {c.In(0), c.In(1)};
  const char *names[2] = {"transA", "transB"}, *batches[2] = {"transBatchA", "transBatchB"};
  for (int i = 0; i < 2; ++i) {
    if (c.rank(i) == 1) {
      sides[i] = c.b.Unsqueeze(sides[i], i);
      continue;
    }
    std::vector<int> perm = AxisRange(0, c.rank(i));
    // The first dim goes after the other batch dims.
    if (c.Int(batches[i], 0) != 0 && perm.size() > 2)
      std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
    if (c.Int(names[i], 0) != 0) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    sides[i] = c.b.Transpose(sides[i], perm);
  }
  const Shape a = c.b.shape(sides[0]), w = c.b.shape(sides[1]);
  Shape outer_a = a, outer_w = w, outer;
  outer_a.rank -= 2;
  outer_w.rank -= 2;
  if (a[a.rank - 1] != w[w.rank - 2] || a[a.rank - 1] == 0 ||
      !ir::BroadcastShapes(outer_a, outer_w, &outer)) {
    return Status::Error(Code::kCorrupt, "shapes %s and %s do not multiply", Text(a).c_str(),
                         Text(w).c_str());
  }
  std::vector<int64_t> dims(outer.begin(), outer.end());
  dims.push_back(a[a.rank - 2]);
  dims.push_back(w[w.rank - 1]);
  RONDO_RETURN_IF_ERROR(c.MakeShape(dims).status());
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  NodeId y = c.b.MatMul(sides[0], sides[1]);
  if (c.rank(1) == 1) y = c.b.Squeeze(y, c.b.shape(y).rank - 1);
  if (c.rank(0) == 1) y = c.b.Squeeze(y, c.b.shape(y).rank - (c.rank(1) == 1 ? 1 : 2));
  float alpha = c.Float("alpha", 1);
  RONDO_ASSIGN_OR_RETURN(y, FusedActivation(c, alpha == 1 ? y : c.b.BinaryScalar(TapeOp::kMul, y, alpha)));
  return c.Give(y);
}

Status FusedGemm(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "Gemm", 13, {c.In(0), c.In(1), c.In(2)}));
  RONDO_ASSIGN_OR_RETURN(y, FusedActivation(c, y));
  return c.Give(y);
}

Status GemmFastGelu(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "MatMul", 13, {c.In(0), c.In(1)}));
  y = Widen(b, y);
  if (c.Has(2)) {
    const Shape s = b.shape(y);
    if (s.rank == 0) return DoesNotFit(c, 2, s);
    RONDO_ASSIGN_OR_RETURN(const NodeId bias, VectorInput(c, 2, s[s.rank - 1]));
    y = b.Add(y, bias);
  }
  return c.Give(b.Cast(GeluTanh(b, y), c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"FusedMatMul", 2, FusedMatMul, 1, kLatest, kDomain},
    {"TransposeMatMul", 2, FusedMatMul, 1, kLatest, kDomain},
    {"FusedMatMulActivation", 2, FusedMatMul, 1, kLatest, kDomain},
    {"FusedGemm", 2, FusedGemm, 1, kLatest, kDomain},
    {"GemmFastGelu", 2, GemmFastGelu, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> FusedMatMulOps() { return kOps; }

}  // namespace rondo::importer
