// Operators in the forms of older opsets, in which an attribute is now an input or another operator. Each
// becomes today's form. A form with only fewer features than today's (no `largest`, axes in an attribute)
// needs no row here.
#include <limits>

#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

// Makes the operator's result the node's only output.
Status SetOne(OpContext& c, const char* op, const std::vector<NodeId>& inputs) {
  RONDO_ASSIGN_OR_RETURN(const NodeId y, CallOne(c, op, 13, inputs));
  return c.Give(y);
}

// Input 1 with dims that broadcast to input 0 from `axis` on; by default they are the last dims.
Result<NodeId> AlignedAt(OpContext& c, int64_t axis) {
  Shape shape = c.shape(1);
  if (axis < 0) axis += c.rank(0);
  if (axis < 0 || axis > c.rank(0) - shape.rank) {
    return Status::Error(Code::kCorrupt, "input 1 of shape %s does not broadcast to %s from axis %lld on",
                         Text(shape).c_str(), Text(c.shape(0)).c_str(), static_cast<long long>(axis));
  }
  while (axis + shape.rank < c.rank(0)) shape.dims[shape.rank++] = 1;
  return c.b.Reshape(c.In(1), shape);
}

// Before opset 7, input 1 broadcasts only if the node's attributes allow it.
constexpr char kAdd[] = "Add", kSub[] = "Sub", kMul[] = "Mul", kDiv[] = "Div", kPow[] = "Pow", kAnd[] = "And",
               kOr[] = "Or", kXor[] = "Xor", kEqual[] = "Equal", kLess[] = "Less", kGreater[] = "Greater";
template <const char* kOp>
Status Broadcasting(OpContext& c) {
  const bool broadcasts = c.Int("broadcast", 0) != 0;
  if (!broadcasts && !(c.shape(0) == c.shape(1))) {
    return Status::Error(Code::kCorrupt, "inputs of shapes %s and %s, and no attribute `broadcast`",
                         Text(c.shape(0)).c_str(), Text(c.shape(1)).c_str());
  }
  if (!broadcasts || !c.HasAttribute("axis")) return SetOne(c, kOp, {c.In(0), c.In(1)});
  RONDO_ASSIGN_OR_RETURN(const NodeId other, AlignedAt(c, c.Int("axis", 0)));
  return SetOne(c, kOp, {c.In(0), other});
}

// Before opset 7 a slope is a single value, or one per channel.
Status PRelu6(OpContext& c) {
  if (c.shape(1).elements() == 1) return SetOne(c, "PRelu", {c.In(0), c.b.Reshape(c.In(1), Shape{})});
  if (c.rank(1) != 1 || c.rank(0) < 2) return SetOne(c, "PRelu", {c.In(0), c.In(1)});
  RONDO_ASSIGN_OR_RETURN(const NodeId slope, AlignedAt(c, 1));
  return SetOne(c, "PRelu", {c.In(0), slope});
}

Status Clip10(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  const float most = std::numeric_limits<float>::max();
  const NodeId least = c.b.Scalar(c.dtype(0), c.Float("min", -most));
  return SetOne(c, "Clip", {c.In(0), least, c.b.Scalar(c.dtype(0), c.Float("max", most))});
}

Status Pad10(OpContext& c) {
  const NodeId value = c.b.Scalar(c.dtype(0), c.Float("value", 0));
  return SetOne(c, "Pad", {c.In(0), c.b.I64(c.Ints("pads")), value});
}

Status Slice9(OpContext& c) {
  const NodeId axes = c.HasAttribute("axes") ? c.b.I64(c.Ints("axes")) : kNoNode;
  return SetOne(c, "Slice", {c.In(0), c.b.I64(c.Ints("starts")), c.b.I64(c.Ints("ends")), axes});
}

Status TopK9(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<NodeId> outputs,
                         CallOp(c, "TopK", 13, {c.In(0), c.b.I64({c.Int("k", 0)})}));
  c.Set(0, outputs[0]);
  if (outputs.size() > 1) c.Set(1, outputs[1]);
  return Status::Ok();
}

// Before opset 10 the mask has the data's type.
Status Dropout9(OpContext& c) {
  c.Set(0, c.In(0));
  if (c.Wants(1)) c.Set(1, c.b.Expand(c.b.Scalar(c.dtype(0), 1), c.shape(0)));
  return Status::Ok();
}

// Before opset 9 there may be statistics per element instead of per channel.
Status BatchNormalization8(OpContext& c) {
  if (c.Int("spatial", 1) == 0) {
    return Status::Error(Code::kUnsupported,
                         "spatial is 0: convert the model to opset 9 or later (onnx.version_converter)");
  }
  return SetOne(c, "BatchNormalization", {c.In(0), c.In(1), c.In(2), c.In(3), c.In(4)});
}

// Scan of opset 8: sequence_lens (must be absent), states [batch, ...] and scanned inputs [batch, length,
// ...]. Each batch entry is a Scan of opset 9.
Status Scan8(OpContext& c) {
  for (const int64_t direction : c.Ints("directions")) {
    if (direction != 0)
      return Status::Error(Code::kUnsupported,
                           "a direction of opset 8: convert the model to opset 9 or later");
  }
  if (c.Has(0)) return Status::Error(Code::kUnsupported, "sequence_lens, which opset 9 no longer has");
  std::vector<std::vector<NodeId>> rows;
  for (int64_t entry = 0; entry < (c.Has(1) ? c.shape(1)[0] : 0); ++entry) {
    std::vector<NodeId> inputs;
    for (int i = 1; i < c.num_inputs(); ++i) {
      if (!c.Has(i) || c.rank(i) < 1 || c.shape(i)[0] != c.shape(1)[0])
        return Status::Error(Code::kCorrupt, "input %d has no batch of its own", i);
      inputs.push_back(c.b.Squeeze(c.b.Slice(c.In(i), 0, entry, 1, 1), 0));
    }
    RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> outputs, CallOp(c, "Scan", 9, inputs));
    for (NodeId& output : outputs) output = c.b.Unsqueeze(output, 0);
    rows.push_back(std::move(outputs));
  }
  if (rows.empty()) return Status::Error(Code::kUnsupported, "a batch without entries");
  for (int i = 0; i < c.num_outputs(); ++i) {
    std::vector<NodeId> parts;
    for (const std::vector<NodeId>& row : rows) parts.push_back(row[static_cast<size_t>(i)]);
    c.Set(i, parts.size() == 1 ? parts[0] : c.b.Concat(parts, 0));
  }
  return Status::Ok();
}

// Operator, inputs, handler, first and last opset of the form.
constexpr OpRow kOps[] = {
    {"Add", 2, Broadcasting<kAdd>, 1, 6},
    {"Sub", 2, Broadcasting<kSub>, 1, 6},
    {"Mul", 2, Broadcasting<kMul>, 1, 6},
    {"Div", 2, Broadcasting<kDiv>, 1, 6},
    {"Pow", 2, Broadcasting<kPow>, 1, 6},
    {"And", 2, Broadcasting<kAnd>, 1, 6},
    {"Or", 2, Broadcasting<kOr>, 1, 6},
    {"Xor", 2, Broadcasting<kXor>, 1, 6},
    {"Equal", 2, Broadcasting<kEqual>, 1, 6},
    {"Less", 2, Broadcasting<kLess>, 1, 6},
    {"Greater", 2, Broadcasting<kGreater>, 1, 6},
    {"PRelu", 2, PRelu6, 1, 6},
    {"Clip", 1, Clip10, 6, 10},
    {"Pad", 1, Pad10, 2, 10},
    {"Slice", 1, Slice9, 1, 9},
    {"TopK", 1, TopK9, 1, 9},
    {"Dropout", 1, Dropout9, 6, 9},
    {"BatchNormalization", 5, BatchNormalization8, 6, 8},
    {"Scan", 0, Scan8, 8, 8},
};

}  // namespace

Span<const OpRow> OlderForms() { return kOps; }

}  // namespace rondo::importer
