// Matmuls.
#include "compiler/import/decompose.h"
#include "compiler/import/quantise.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

// The result's shape of a matmul of these shapes by numpy's rules.
Result<Shape> CheckMatMul(OpContext& c, const Shape& a, const Shape& b) {
  auto fail = [&] {
    return Status::Error(Code::kCorrupt, "shapes %s and %s do not multiply", Text(a).c_str(),
                         Text(b).c_str());
  };
  if (a.rank == 0 || b.rank == 0) return fail();
  int64_t k = a[a.rank - 1], rows = b.rank == 1 ? b[0] : b[b.rank - 2];
  if (k != rows) return fail();
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  Shape outer_a, outer_b, outer;
  for (int d = 0; d < a.rank - 2; ++d) outer_a.dims[outer_a.rank++] = a[d];
  for (int d = 0; d < b.rank - 2; ++d) outer_b.dims[outer_b.rank++] = b[d];
  if (!ir::BroadcastShapes(outer_a, outer_b, &outer)) return fail();
  std::vector<int64_t> dims(outer.begin(), outer.end());
  if (a.rank > 1) dims.push_back(a[a.rank - 2]);
  if (b.rank > 1) dims.push_back(b[b.rank - 1]);
  return c.MakeShape(dims);
}

// A matmul; zeros if K is 0, as in an adapter of rank 0.
Result<NodeId> Product(OpContext& c, NodeId a, NodeId b) {
  const Shape left = c.b.shape(a);
  RONDO_ASSIGN_OR_RETURN(const Shape shape, CheckMatMul(c, left, c.b.shape(b)));
  if (left[left.rank - 1] == 0) return c.b.Expand(c.b.Scalar(c.b.dtype(a), 0), shape);
  return c.b.MatMul(a, b);
}

Status MatMul(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  RONDO_ASSIGN_OR_RETURN(const NodeId y, Product(c, c.In(0), c.In(1)));
  return c.Give(y);
}

Status Gemm(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 2));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 2, 2));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  NodeId a = c.In(0), w = c.In(1);
  if (c.Int("transA", 0) != 0) a = c.b.Transpose(a, {1, 0});
  if (c.Int("transB", 0) != 0) w = c.b.Transpose(w, {1, 0});
  RONDO_ASSIGN_OR_RETURN(NodeId y, Product(c, a, w));
  float alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  // Integers with fractional factors are computed in f64 and truncated at the end.
  const bool widens = !IsFloat(c.b.dtype(y)) && (alpha != 1 || beta != 1);
  const auto times = [&](NodeId x, float by) {
    if (widens) x = c.b.Cast(x, DType::kF64);
    return by == 1 ? x : c.b.BinaryScalar(TapeOp::kMul, x, by);
  };
  y = times(y, alpha);
  if (c.Has(2) && beta != 0) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 2));
    RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(c.b.shape(y), c.shape(2)));
    if (!(shape == c.b.shape(y))) {
      return Status::Error(Code::kCorrupt, "C of shape %s does not broadcast to %s", Text(c.shape(2)).c_str(),
                           Text(c.b.shape(y)).c_str());
    }
    y = c.b.Add(y, times(c.In(2), beta));
  }
  return c.Give(widens ? c.b.Cast(y, c.dtype(0)) : y);
}

// x - zero point as i32. The zero point is a scalar, or one value per row (of a) or column (of b). Nothing is
// folded into a constant x until its readers are known.
Result<NodeId> Centred(OpContext& c, int x, int zero, bool per_row) {
  NodeId z = c.Has(zero) ? c.b.Cast(c.In(zero), DType::kI32) : kNoNode;
  if (c.Has(zero)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(x, zero));
    if (c.shape(zero).elements() == 1) {
      z = c.b.Reshape(z, Shape{});
    } else {
      if (per_row && c.rank(zero) == 1) z = c.b.Unsqueeze(z, 1);
      RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(c.shape(x), c.b.shape(z)));
      if (!(shape == c.shape(x)))
        return Status::Error(Code::kCorrupt, "zero point %s does not fit %s", Text(c.shape(zero)).c_str(),
                             Text(c.shape(x)).c_str());
    }
  }
  c.b.FoldConstants(false);
  NodeId value = c.b.Cast(c.In(x), DType::kI32);
  if (z != kNoNode) value = c.b.Sub(value, z);
  c.b.FoldConstants(true);
  return value;
}

Status MatMulInteger(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireInteger(0));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(1));
  RONDO_RETURN_IF_ERROR(CheckMatMul(c, c.shape(0), c.shape(1)).status());
  RONDO_ASSIGN_OR_RETURN(NodeId a, Centred(c, 0, 2, true));
  RONDO_ASSIGN_OR_RETURN(NodeId w, Centred(c, 1, 3, false));
  RONDO_ASSIGN_OR_RETURN(const NodeId y, Product(c, a, w));
  return c.Give(y);
}

// a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero. The matmul is exact in i32.
Status QLinearMatMul(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireInteger(0));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(3));
  RONDO_RETURN_IF_ERROR(CheckMatMul(c, c.shape(0), c.shape(3)).status());
  RONDO_ASSIGN_OR_RETURN(NodeId a, Centred(c, 0, 2, true));
  RONDO_ASSIGN_OR_RETURN(NodeId w, Centred(c, 3, 5, false));
  RONDO_ASSIGN_OR_RETURN(const NodeId sum, Product(c, a, w));
  NodeId y = c.b.Cast(sum, DType::kF32);
  NodeId a_scale = c.b.Cast(c.In(1), DType::kF32), b_scale = c.b.Cast(c.In(4), DType::kF32);
  if (c.shape(1).elements() == 1) {
    a_scale = c.b.Reshape(a_scale, Shape{});
  } else if (c.rank(1) == 1) {
    a_scale = c.b.Unsqueeze(a_scale, 1);
  }
  if (c.shape(6).elements() != 1 || c.shape(7).elements() != 1) {
    return Status::Error(Code::kUnsupported, "the result's scale and zero point must be scalars");
  }
  RONDO_RETURN_IF_ERROR(c.Broadcast(c.b.shape(y), c.b.shape(a_scale)).status());
  y = c.b.Mul(y, a_scale);
  RONDO_RETURN_IF_ERROR(c.Broadcast(c.b.shape(y), c.b.shape(b_scale)).status());
  y = c.b.Mul(y, b_scale);
  NodeId scale = c.b.Cast(c.b.Reshape(c.In(6), Shape{}), DType::kF32);
  return c.Give(Quantise(c.b, y, scale, c.b.Reshape(c.In(7), Shape{}), c.dtype(7)));
}

constexpr OpRow kOps[] = {
    {"MatMul", 2, MatMul},
    {"Gemm", 2, Gemm},
    {"MatMulInteger", 2, MatMulInteger},
    {"QLinearMatMul", 8, QLinearMatMul},
};

}  // namespace

Span<const OpRow> MatmulOps() { return kOps; }

}  // namespace rondo::importer
