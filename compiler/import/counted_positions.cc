#include "compiler/import/counted_positions.h"

#include <algorithm>
#include <string_view>

#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

// What is computed with the number is known as well; what compares it decides by it.
constexpr std::string_view kComputes[] = {"Add",     "Cast", "Concat",   "Gather",  "Identity",
                                          "Max",     "Min",  "Mul",      "Reshape", "Slice",
                                          "Squeeze", "Sub",  "Unsqueeze"};
constexpr std::string_view kDecides[] = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};

template <typename List>
bool Contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// The place of the last element of a mask [texts, positions] that is not 0, of any text, and one more.
NodeId LastOf(ir::Builder& b, NodeId mask) {
  const Shape shape = b.shape(mask);
  NodeId none = b.Binary(TapeOp::kEqual, mask, b.Scalar(b.dtype(mask), 0));
  NodeId place = b.BinaryScalar(TapeOp::kAdd, b.Iota({shape[1]}, 0), 1);
  return b.Reduce(ir::ReduceKind::kMax, b.Select(none, b.Scalar(DType::kI64, 0), place), {0, 1}, false);
}

Result<std::vector<Value>> Outputs(const OpRow& row, OpContext& c, bool in_run) {
  std::vector<Value> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) {
    inputs.push_back(c.InValue(i));
    if (in_run && inputs.back().in_run != kNoNode) inputs.back().node = inputs.back().in_run;
    inputs.back().in_run = kNoNode;
  }
  OpContext again(&c.b, &c.host, c.proto, c.opset, c.attributes(), std::move(inputs));
  RONDO_RETURN_IF_ERROR(row.handler(again));
  return again.outputs();
}

}  // namespace

bool CountsPositions(const OpRow& row, const OpContext& c) {
  if (std::string_view(row.op) == "Shape") return c.num_inputs() > 0 && c.InValue(0).is_mask;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.InValue(i).in_run != kNoNode) return true;
  }
  return false;
}

Status CallWithCounts(const OpRow& row, OpContext& c) {
  ir::Builder& b = c.b;
  const std::string_view op = row.op;
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, Outputs(row, c, Contains(kDecides, op)));
  if (op == "Shape") {
    const bool whole = !c.HasAttribute("start") && !c.HasAttribute("end") && c.rank(0) == 2;
    if (whole) {
      const NodeId texts = b.Slice(outputs[0].node, 0, 0, 1, 1);
      outputs[0].in_run = b.Concat({texts, b.Reshape(LastOf(b, c.In(0)), {1})}, 0);
    }
  } else if (Contains(kComputes, op)) {
    RONDO_ASSIGN_OR_RETURN(const std::vector<Value> real, Outputs(row, c, true));
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].in_run = real[i].node;
  }
  for (size_t i = 0; i < outputs.size(); ++i) c.SetValue(static_cast<int>(i), outputs[i]);
  return Status::Ok();
}

}  // namespace rondo::importer
