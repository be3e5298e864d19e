#include "compiler/import/call_op.h"

#include <limits>
#include <string_view>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {

namespace {

Result<std::vector<NodeId>> CallWith(OpContext& c, const char* op, int64_t opset,
                                     const std::vector<NodeId>& inputs, AttributeMap attributes) {
  const OpRow* row = FindOp("", op, opset);
  if (row == nullptr)
    return Status::Error(Code::kUnsupported, "%s of opset %lld", op, static_cast<long long>(opset));
  std::vector<Value> values;
  for (NodeId input : inputs) values.push_back(Value{input, false, {}});
  OpContext inner(&c.b, &c.host, c.proto, opset, std::move(attributes), std::move(values));
  for (int i = 0; i < row->least_inputs; ++i) {
    if (!inner.Has(i)) return Status::Error(Code::kCorrupt, "input %d of %s is missing", i, op);
  }
  RONDO_RETURN_IF_ERROR(row->handler(inner));
  std::vector<NodeId> outputs;
  for (const Value& value : inner.outputs()) outputs.push_back(value.node);
  return outputs;
}

// Operators whose attributes are named after the activation: activation_alpha is the operator's alpha.
constexpr const char* kByName[] = {"Elu", "Selu", "Softsign", "ThresholdedRelu"};

Result<NodeId> ActivationByName(OpContext& c, const char* op, NodeId x) {
  constexpr std::string_view kPrefix = "activation_";
  AttributeMap attributes;
  for (const auto& [name, attribute] : c.attributes()) {
    if (name.starts_with(kPrefix)) attributes[name.substr(kPrefix.size())] = attribute;
  }
  RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> outputs, CallWith(c, op, 14, {x}, std::move(attributes)));
  return outputs[0];
}

}  // namespace

Result<std::vector<NodeId>> CallOp(OpContext& c, const char* op, int64_t opset,
                                   const std::vector<NodeId>& inputs) {
  return CallWith(c, op, opset, inputs, c.attributes());
}

Result<NodeId> CallOne(OpContext& c, const char* op, int64_t opset, const std::vector<NodeId>& inputs) {
  RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> outputs, CallOp(c, op, opset, inputs));
  return outputs[0];
}

Result<NodeId> FusedActivation(OpContext& c, NodeId x) {
  ir::Builder& b = c.b;
  const std::string name = c.String("activation", "");
  const std::vector<float> listed = c.Floats("activation_params");
  const auto number = [&](size_t i, const char* attribute, float otherwise) {
    return static_cast<double>(i < listed.size() ? listed[i] : c.Float(attribute, otherwise));
  };
  if (name.empty()) return x;
  if (name == "Relu") return Relu(b, x);
  if (name == "Tanh") return b.Unary(TapeOp::kTanh, x);
  if (name == "Sigmoid") return Sigmoid(b, x);
  if (name == "Softplus") return Softplus(b, x);
  if (name == "Gelu") return GeluErf(b, x);
  if (name == "LeakyRelu") {
    NodeId below = b.Binary(TapeOp::kLess, x, b.Scalar(b.dtype(x), 0));
    return b.Select(below, b.BinaryScalar(TapeOp::kMul, x, number(0, "activation_alpha", 0.01f)), x);
  }
  if (name == "Clip") {
    const float most = std::numeric_limits<float>::max();
    return Clamp(b, x, number(0, "activation_alpha", -most), number(1, "activation_beta", most));
  }
  if (name == "HardSigmoid") {
    NodeId line = b.BinaryScalar(TapeOp::kMul, x, number(0, "activation_alpha", 0.2f));
    return Clamp(b, b.BinaryScalar(TapeOp::kAdd, line, number(1, "activation_beta", 0.5f)), 0, 1);
  }
  if (name == "HardSwish") {
    NodeId line = b.BinaryScalar(TapeOp::kMul, x, number(0, "activation_alpha", 1.0f / 6));
    return b.Mul(x, Clamp(b, b.BinaryScalar(TapeOp::kAdd, line, number(1, "activation_beta", 0.5f)), 0, 1));
  }
  if (name == "ScaledTanh") {
    NodeId y = b.BinaryScalar(TapeOp::kMul, x, number(1, "activation_beta", 1));
    return b.BinaryScalar(TapeOp::kMul, b.Unary(TapeOp::kTanh, y), number(0, "activation_alpha", 1));
  }
  if (name == "ParametricSoftplus") {
    NodeId y = b.BinaryScalar(TapeOp::kMul, x, number(1, "activation_beta", 1));
    return b.BinaryScalar(TapeOp::kMul, Softplus(b, y), number(0, "activation_alpha", 1));
  }
  for (const char* op : kByName) {
    if (name == op && listed.empty()) return ActivationByName(c, op, x);
  }
  return Status::Error(Code::kUnsupported,
                       "the activation \"%.40s\"%s: rondo knows Relu, Tanh, Sigmoid, Softplus, Gelu, "
                       "LeakyRelu, Clip, HardSigmoid, "
                       "HardSwish, ScaledTanh and ParametricSoftplus here, and by name (not with "
                       "activation_params) Elu, Selu, Softsign and ThresholdedRelu; "
                       "export the model without fused activations",
                       name.c_str(), listed.empty() ? "" : " with activation_params");
}

Status DoesNotFit(const OpContext& c, int i, const Shape& to) {
  return Status::Error(Code::kCorrupt, "input %d of shape %s does not fit %s", i, Text(c.shape(i)).c_str(),
                       Text(to).c_str());
}

Result<NodeId> VectorInput(OpContext& c, int i, int64_t count) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  if (!(c.shape(i) == Shape({count}))) return DoesNotFit(c, i, Shape({count}));
  return c.b.Cast(c.In(i), DType::kF32);
}

Result<NodeId> AddInput(OpContext& c, NodeId y, int i) {
  if (!c.Has(i)) return y;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(c.b.shape(y), c.shape(i)));
  if (!(shape == c.b.shape(y))) {
    return Status::Error(Code::kCorrupt, "input %d of shape %s does not broadcast to %s", i,
                         Text(c.shape(i)).c_str(), Text(c.b.shape(y)).c_str());
  }
  return c.b.Add(y, c.b.Cast(c.In(i), c.b.dtype(y)));
}

NodeId ChannelsFirst(ir::Builder& b, NodeId x) {
  const int rank = b.shape(x).rank;
  std::vector<int> perm = {0, rank - 1};
  for (int d = 1; d < rank - 1; ++d) perm.push_back(d);
  return b.Transpose(x, perm);
}

NodeId ChannelsLast(ir::Builder& b, NodeId x) {
  const int rank = b.shape(x).rank;
  std::vector<int> perm = {0};
  for (int d = 2; d < rank; ++d) perm.push_back(d);
  perm.push_back(1);
  return b.Transpose(x, perm);
}

}  // namespace rondo::importer
