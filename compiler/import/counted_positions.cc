#include "compiler/import/counted_positions.h"

#include <algorithm>
#include <string_view>

#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

// What is computed with the number, element by element, is known as well. Where something else that only a
// run knows is in it, it is the real number.
constexpr std::string_view kComputes[] = {"Abs", "Add",   "Ceil", "Clip",       "Concat", "Cos",   "Div",
                                          "Exp", "Floor", "Log",  "Max",        "Mean",   "Min",   "Mod",
                                          "Mul", "Neg",   "Pow",  "Reciprocal", "Relu",   "Round", "Sign",
                                          "Sin", "Sqrt",  "Sub",  "Sum",        "Where"};
// What only shows, rounds or gathers the numbers of its first input.
constexpr std::string_view kShows[] = {"Cast",      "Gather",     "Identity",  "ReduceMax",
                                       "ReduceMin", "ReduceProd", "ReduceSum", "Reshape",
                                       "Slice",     "Squeeze",    "Unsqueeze"};
// What compares the number decides by it.
constexpr std::string_view kDecides[] = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};

// What takes all numbers of something at once.
constexpr std::string_view kTakesAll[] = {"ArgMax",     "ArgMin",    "CumSum",          "ReduceL1",
                                          "ReduceL2",   "ReduceMax", "ReduceMean",      "ReduceMin",
                                          "ReduceProd", "ReduceSum", "ReduceSumSquare", "TopK"};
// What makes or moves a number for each position.
constexpr std::string_view kMoves[] = {"ConstantOfShape", "Expand",  "Range",     "Reshape",
                                       "Slice",           "Squeeze", "Transpose", "Unsqueeze"};
constexpr std::string_view kJoins[] = {"And", "Cast", "Identity", "Not", "Or", "Xor"};

template <typename List>
bool Contains(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// The outputs of the node, of the numbers as they are in a run or as shapes have them, of its first `inputs`.
Result<std::vector<Value>> Outputs(const OpRow& row, OpContext& c, bool in_run, int inputs) {
  std::vector<Value> values;
  for (int i = 0; i < c.num_inputs(); ++i) {
    values.push_back(c.InValue(i));
    if (in_run && i < inputs && values.back().in_run != kNoNode) values.back().node = values.back().in_run;
    values.back().in_run = kNoNode;
  }
  OpContext again(&c.b, &c.host, c.proto, c.opset, c.attributes(), std::move(values));
  RONDO_RETURN_IF_ERROR(row.handler(again));
  return again.outputs();
}

// What Shape or Size give in a run.
NodeId DimsInRun(OpContext& c, bool all_at_once) {
  ir::Builder& b = c.b;
  const Value& value = c.InValue(0);
  const NodeId real = c.host.PositionsInRun(value.of_past);
  if (real == kNoNode) return kNoNode;
  const Shape shape = c.shape(0);
  std::vector<NodeId> dims;
  for (int d = 0; d < shape.rank; ++d) dims.push_back(d == value.positions_dim ? real : b.I64({shape[d]}));
  if (all_at_once) {
    NodeId size = b.I64({1});
    for (const NodeId dim : dims) size = b.Mul(size, dim);
    return b.Reshape(size, Shape{});
  }
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + shape.rank : at, 0, shape.rank);
  };
  const int64_t start = place(c.Int("start", 0)), end = place(c.Int("end", shape.rank));
  return start >= end ? kNoNode : b.Slice(b.Concat(dims, 0), 0, start, 1, end - start);
}

// Whether some input that does not count positions is known in a run only.
bool MeetsRun(const OpContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    const bool plain = c.Has(i) && c.InValue(i).in_run == kNoNode;
    if (plain && !EvaluateConstant(c.b.graph(), c.In(i)).ok()) return true;
  }
  return false;
}

Status Refuse(const char* what) {
  return Status::Error(
      Code::kUnsupported,
      "it %s, and how many are cached only a run knows; export the model with the input position_ids, "
      "or compile it for one number of cached positions (--shape)",
      what);
}

bool AnyNegative(const OpContext& c, int i) {
  const auto numbers = c.ConstantInts(i);
  return numbers.ok() && std::any_of(numbers->begin(), numbers->end(), [](int64_t x) { return x < 0; });
}

// The first input that is a number for each position; -1 if none is.
int RangeAmong(const OpContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.InValue(i).is_range) return i;
  }
  return -1;
}

// What would count from, or up to, the end of the cache instead of the last real position.
Status CheckEnds(std::string_view op, const OpContext& c) {
  const auto counts = [&](int i) { return c.num_inputs() > i && c.InValue(i).in_run != kNoNode; };
  if (op == "Range" && counts(0)) return Refuse("begins with a number of positions");
  if (op == "Slice" && counts(1)) return Refuse("begins at a number of positions");
  if (op == "Slice" && counts(2)) {
    const auto ends = c.ConstantInts(2);
    const auto all = [&](int64_t end) {
      return end >= *std::max_element(c.shape(0).begin(), c.shape(0).end());
    };
    if (c.rank(0) == 0 || !ends.ok() || !std::all_of(ends->begin(), ends->end(), all))
      return Refuse("ends at a number of positions");
  }
  const int range = RangeAmong(c);
  if (range < 0) return Status::Ok();
  if (Contains(kTakesAll, op)) return Refuse("takes the numbers of all positions at once");
  const bool from_end = (op == "Gather" && range == 0 && AnyNegative(c, 1)) ||
                        (op == "Slice" && range == 0 && (AnyNegative(c, 1) || AnyNegative(c, 2)));
  return from_end ? Refuse("counts positions from the last one on") : Status::Ok();
}

// Marks what is a number for each position, along the dim that is as long as the input's.
void MarkRange(std::string_view op, const OpContext& c, Value* out) {
  if (out->node == kNoNode || out->is_sequence) return;
  const Shape shape = c.b.shape(out->node);
  const int range = RangeAmong(c);
  const bool pointwise = Contains(kComputes, op) || Contains(kDecides, op) || Contains(kJoins, op);
  int64_t length = 0;
  if (range >= 0) {
    const Value& from = c.InValue(range);
    if (pointwise && op != "Concat") {
      out->positions_dim = from.positions_dim + shape.rank - c.rank(range);
      out->is_range = true;
      return;
    }
    length = c.shape(range)[from.positions_dim];
  } else if (shape.rank == 1) {
    length = shape[0];  // made of the number itself
  }
  if (!Contains(kMoves, op) || length == 0 || std::count(shape.begin(), shape.end(), length) != 1) return;
  out->positions_dim = static_cast<int>(std::find(shape.begin(), shape.end(), length) - shape.begin());
  out->is_range = true;
}

}  // namespace

bool CountsPositions(const OpRow& row, const OpContext& c) {
  const std::string_view op = row.op;
  if (c.num_inputs() > 0 && c.InValue(0).positions_dim >= 0 &&
      (op == "Shape" || op == "Size" || op == "Cast" || op == "Identity"))
    return true;
  const bool writes_cache = op == "GroupQueryAttention" && c.num_inputs() > 3;
  if (writes_cache && c.InValue(3).positions_dim >= 0) return true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.InValue(i).in_run != kNoNode || c.InValue(i).is_range) return true;
  }
  return false;
}

Status CallWithCounts(const OpRow& row, OpContext& c) {
  const std::string_view op = row.op;
  RONDO_RETURN_IF_ERROR(CheckEnds(op, c));
  const bool computes = Contains(kComputes, op), decides = Contains(kDecides, op);
  const bool looks_up = op == "Gather" && c.num_inputs() > 1 && c.InValue(0).in_run == kNoNode;
  const int follows = computes || decides || looks_up ? c.num_inputs() : Contains(kShows, op) ? 1 : 0;
  bool counts = false;
  for (int i = 0; i < follows; ++i) counts = counts || c.InValue(i).in_run != kNoNode;
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> outputs, Outputs(row, c, false, 0));
  const bool is_bool = outputs[0].node != kNoNode && c.b.dtype(outputs[0].node) == DType::kBool;
  if (counts && (is_bool || looks_up || (computes && MeetsRun(c)))) {
    RONDO_ASSIGN_OR_RETURN(outputs, Outputs(row, c, true, follows));
  } else if (counts) {
    RONDO_ASSIGN_OR_RETURN(const std::vector<Value> real, Outputs(row, c, true, follows));
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].in_run = real[i].node;
  } else if ((op == "Shape" || op == "Size") && c.InValue(0).positions_dim >= 0) {
    outputs[0].in_run = DimsInRun(c, op == "Size");
  } else if (op == "Cast" || op == "Identity") {
    outputs[0].positions_dim = c.InValue(0).positions_dim;
    outputs[0].of_past = c.InValue(0).of_past;
  } else if (op == "GroupQueryAttention") {
    for (size_t i = 1; i < outputs.size() && i < 3; ++i)
      outputs[i].positions_dim = c.InValue(static_cast<int>(i) + 2).positions_dim;
  }
  const bool shows =
      op == "Reshape" || op == "Unsqueeze" || op == "Squeeze" || op == "Slice" || op == "Transpose";
  if (!outputs.empty() && outputs[0].in_run == kNoNode && (!shows || RangeAmong(c) >= 0))
    MarkRange(op, c, &outputs[0]);
  for (size_t i = 0; i < outputs.size(); ++i) c.SetValue(static_cast<int>(i), outputs[i]);
  return Status::Ok();
}

}  // namespace rondo::importer
