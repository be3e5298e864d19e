// Activations and softmax.
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

using ir::ReduceKind;

// A function of one float tensor, computed in f32 at least.
template <NodeId (*kFunction)(Builder&, NodeId)>
Status Wide(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  return c.Give(c.b.Cast(kFunction(c.b, Widen(c.b, c.In(0))), c.dtype(0)));
}

// The same, for functions that read attributes.
template <NodeId (*kFunction)(OpContext&, NodeId)>
Status WideWith(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  return c.Give(c.b.Cast(kFunction(c, Widen(c.b, c.In(0))), c.dtype(0)));
}

NodeId Zero(Builder& b, NodeId x) { return b.Scalar(b.dtype(x), 0); }

// x < 0 ? negative : x.
NodeId BelowZero(Builder& b, NodeId x, NodeId negative) {
  return b.Select(b.Binary(TapeOp::kLess, x, Zero(b, x)), negative, x);
}

Status ReluOp(OpContext& c) {
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  return c.Give(Relu(c.b, c.In(0)));
}

NodeId LeakyRelu(OpContext& c, NodeId x) {
  return BelowZero(c.b, x, c.b.BinaryScalar(TapeOp::kMul, x, c.Float("alpha", 0.01f)));
}

NodeId Elu(OpContext& c, NodeId x) {
  return BelowZero(c.b, x, c.b.BinaryScalar(TapeOp::kMul, c.b.Unary(TapeOp::kExpm1, x), c.Float("alpha", 1)));
}

NodeId Selu(OpContext& c, NodeId x) {
  float alpha = c.Float("alpha", 1.67326319217681884765625f);
  float gamma = c.Float("gamma", 1.05070102214813232421875f);
  NodeId low = c.b.BinaryScalar(TapeOp::kMul, c.b.Unary(TapeOp::kExpm1, x), alpha);
  return c.b.BinaryScalar(TapeOp::kMul, BelowZero(c.b, x, low), gamma);
}

NodeId Celu(OpContext& c, NodeId x) {
  float alpha = c.Float("alpha", 1);
  NodeId low = c.b.Unary(TapeOp::kExpm1, c.b.BinaryScalar(TapeOp::kDiv, x, alpha));
  return BelowZero(c.b, x, c.b.BinaryScalar(TapeOp::kMul, low, alpha));
}

NodeId ThresholdedRelu(OpContext& c, NodeId x) {
  NodeId above = c.b.Binary(TapeOp::kLess, c.b.Scalar(c.b.dtype(x), c.Float("alpha", 1)), x);
  return c.b.Select(above, x, Zero(c.b, x));
}

NodeId HardSigmoid(OpContext& c, NodeId x) {
  NodeId line = c.b.BinaryScalar(TapeOp::kMul, x, c.Float("alpha", 0.2f));
  return Clamp(c.b, c.b.BinaryScalar(TapeOp::kAdd, line, c.Float("beta", 0.5f)), 0, 1);
}

NodeId HardSwish(Builder& b, NodeId x) {
  NodeId line = b.BinaryScalar(TapeOp::kAdd, b.BinaryScalar(TapeOp::kMul, x, 1.0f / 6.0f), 0.5);
  return b.Mul(x, Clamp(b, line, 0, 1));
}

NodeId Mish(Builder& b, NodeId x) { return b.Mul(x, b.Unary(TapeOp::kTanh, Softplus(b, x))); }

NodeId Softsign(Builder& b, NodeId x) {
  return b.Div(x, b.BinaryScalar(TapeOp::kAdd, b.Unary(TapeOp::kAbs, x), 1));
}

NodeId Swish(OpContext& c, NodeId x) {
  float alpha = c.Float("alpha", 1);
  return alpha == 1 ? Silu(c.b, x) : c.b.Mul(x, Sigmoid(c.b, c.b.BinaryScalar(TapeOp::kMul, x, alpha)));
}

NodeId Gelu(OpContext& c, NodeId x) {
  return c.String("approximate", "none") == "tanh" ? GeluTanh(c.b, x) : GeluErf(c.b, x);
}

// SiLU of the gate times the other input.
Status SwiGlu(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  if (!(c.shape(0) == c.shape(1))) {
    return Status::Error(Code::kCorrupt, "a gate of shape %s for %s", Text(c.shape(0)).c_str(),
                         Text(c.shape(1)).c_str());
  }
  const NodeId gate = Swish(c, Widen(c.b, c.In(0)));
  return c.Give(c.b.Cast(c.b.Mul(gate, Widen(c.b, c.In(1))), c.dtype(0)));
}

Status Shrink(OpContext& c) {
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  Builder& b = c.b;
  NodeId x = c.In(0);
  float bias = c.Float("bias", 0), lambd = c.Float("lambd", 0.5f);
  NodeId wide = IsFloat(c.dtype(0)) ? Widen(b, x) : b.Cast(x, DType::kF32);
  NodeId low = b.Binary(TapeOp::kLess, wide, b.Scalar(b.dtype(wide), -lambd));
  NodeId high = b.Binary(TapeOp::kLess, b.Scalar(b.dtype(wide), lambd), wide);
  NodeId up = b.BinaryScalar(TapeOp::kAdd, wide, bias);
  NodeId down = b.BinaryScalar(TapeOp::kSub, wide, bias);
  return c.Give(b.Cast(b.Select(low, up, b.Select(high, down, Zero(b, wide))), c.dtype(0)));
}

// The slope broadcasts to x, one way.
Status PRelu(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(c.shape(0), c.shape(1)));
  if (!(shape == c.shape(0))) {
    return Status::Error(Code::kCorrupt, "slope %s does not broadcast to %s", Text(c.shape(1)).c_str(),
                         Text(c.shape(0)).c_str());
  }
  return c.Give(BelowZero(c.b, c.In(0), c.b.Mul(c.In(0), c.In(1))));
}

// Before opset 13 the dims from `axis` on count as one.
template <NodeId (*kFunction)(Builder&, NodeId, int)>
Status OverAxis(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  Shape shape = c.shape(0);
  if (c.opset >= 13) {
    if (shape.rank == 0) {
      return c.Give(c.b.Reshape(kFunction(c.b, c.b.Reshape(c.In(0), {1}), 0), shape));
    }
    RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", -1), shape.rank));
    return c.Give(kFunction(c.b, c.In(0), axis));
  }
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 1), shape.rank + 1));
  int64_t rows = 1, columns = 1;
  for (int d = 0; d < shape.rank; ++d) (d < axis ? rows : columns) *= shape[d];
  if (c.Int("axis", 1) < 0) {  // counted from the end
    RONDO_ASSIGN_OR_RETURN(axis, c.Axis(c.Int("axis", 1), shape.rank));
    rows = columns = 1;
    for (int d = 0; d < shape.rank; ++d) (d < axis ? rows : columns) *= shape[d];
  }
  if (axis == shape.rank - 1) {  // needs no reshape
    return c.Give(kFunction(c.b, c.In(0), axis));
  }
  NodeId flat = c.b.Reshape(c.In(0), {rows, columns});
  return c.Give(c.b.Reshape(kFunction(c.b, flat, 1), shape));
}

NodeId Hardmax(Builder& b, NodeId x, int axis) {
  NodeId best = b.Reduce(ReduceKind::kArgMax, x, {axis}, true);
  NodeId here = b.Binary(TapeOp::kEqual, b.IotaOver(b.SizesOf(x), axis), best);
  return b.Cast(here, b.dtype(x));
}

constexpr OpRow kOps[] = {
    {"Relu", 1, ReluOp},
    {"LeakyRelu", 1, WideWith<LeakyRelu>},
    {"PRelu", 2, PRelu},
    {"Elu", 1, WideWith<Elu>},
    {"Selu", 1, WideWith<Selu>},
    {"Celu", 1, WideWith<Celu>},
    {"ThresholdedRelu", 1, WideWith<ThresholdedRelu>},
    {"HardSigmoid", 1, WideWith<HardSigmoid>},
    {"HardSwish", 1, Wide<HardSwish>},
    {"Mish", 1, Wide<Mish>},
    {"Softplus", 1, Wide<Softplus>},
    {"Softsign", 1, Wide<Softsign>},
    {"Swish", 1, WideWith<Swish>},
    {"SwiGLU", 2, SwiGlu, 28},
    {"Gelu", 1, WideWith<Gelu>},
    {"Shrink", 1, Shrink},
    {"Softmax", 1, OverAxis<Softmax>},
    {"LogSoftmax", 1, OverAxis<LogSoftmax>},
    {"Hardmax", 1, OverAxis<Hardmax>},
};

}  // namespace

Span<const OpRow> ActivationOps() { return kOps; }

}  // namespace rondo::importer
