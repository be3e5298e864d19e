#include "compiler/shard/rules.h"

#include <algorithm>
#include <optional>

#include "compiler/shard/local_view.h"

namespace rondo::shard {
namespace {

// The position of one axis of a node's work in an operand, in steps of `scale` indices of a dim.
struct Place {
  int dim = -1;  // -1: the operand does not have the axis
  int64_t scale = 1;
};
// One axis along which the work divides. Operands without the axis are whole.
struct Axis {
  std::vector<Place> inputs;
  Place output;
  bool sums = false;  // the result is a sum over the axis
};

std::vector<Axis> MatMulAxes(const Node& node) {
  const int r = node.shape.rank;
  std::vector<Axis> axes = {
      {{{r - 2}, {}}, {r - 2}}, {{{}, {r - 1}}, {r - 1}}, {{{r - 1}, {r - 2}}, {}, true}};
  for (int d = 0; d < r - 2; ++d) axes.push_back({{{d}, {d}}, {d}});
  return axes;
}

// Whether a node sums over its outermost dim: the experts of a mixture, the parts of a sum.
bool SumsOutermost(const Node& node) {
  const auto& attrs = node.As<ir::ReduceAttrs>();
  return attrs.kind == ir::ReduceKind::kSum && attrs.axes == std::vector<int>{0} && IsFloat(node.dtype) &&
         node.shape.rank > 1;
}

// The reduced axis divides only if it is outermost. Summing a norm's few numbers over the devices would need
// a message, which costs as much as any other.
std::vector<Axis> ReduceAxes(const Node& node) {
  const auto& reduced = node.As<ir::ReduceAttrs>().axes;
  std::vector<Axis> axes;
  for (int d = 0; d < node.shape.rank; ++d) {
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) axes.push_back({{{d}}, {d}});
  }
  if (SumsOutermost(node)) axes.push_back({{{0}}, {}, true});
  return axes;
}

// The axis of a grouped convolution is the group, whose channels stay together.
std::vector<Axis> ConvAxes(const Graph& graph, const Node& node) {
  const auto& attrs = node.As<ir::ConvAttrs>();
  std::vector<Axis> axes = {{{{0}, {}}, {0}}};
  if (attrs.groups == 1) {
    axes.push_back({{{}, {0}}, {1}});
    axes.push_back({{{1}, {1}}, {}, true});
  } else {
    const int64_t in = graph.node(node.inputs[0]).shape[1] / attrs.groups;
    const int64_t out = node.shape[1] / attrs.groups;
    axes.push_back({{{1, in}, {0, out}}, {1, out}});
  }
  return axes;
}

// Query heads stay with the key and value head that they share. If the key and value heads do not divide
// among the devices, every device holds them all and reads those of its own query heads.
std::vector<Axis> AttentionAxes(const Graph& graph, const Node& node, int64_t devices) {
  const int64_t groups = graph.node(node.inputs[1]).shape[1], shared = node.shape[1] / groups;
  const bool divide = groups % devices == 0;
  Axis batch{{{0}, {0}, {0}}, {0}}, heads{{{1}, {}, {}}, {1}};
  if (divide) heads = {{{1, shared}, {1}, {1}}, {1, shared}};
  Axis queries{{{2}, {}, {}}, {2}}, features{{{}, {}, {3}}, {3}};
  for (size_t i = 3; i < node.inputs.size(); ++i) {  // the mask, the limit
    batch.inputs.push_back({0});
    heads.inputs.push_back({1, divide ? shared : 1});
    queries.inputs.push_back({2});
    features.inputs.push_back({});
  }
  return {batch, heads, queries, features};
}

// The same dims in all inputs and the result.
std::vector<Axis> SameAxes(const Node& node, int dims) {
  std::vector<Axis> axes;
  for (int d = 0; d < dims; ++d) axes.push_back({std::vector<Place>(node.inputs.size(), Place{d}), {d}});
  return axes;
}

// The axis of concatenation only divides if all inputs have the same length.
std::vector<Axis> ConcatAxes(const Graph& graph, const Node& node) {
  const int axis = node.As<ir::ConcatAttrs>().axis;
  std::vector<Axis> axes = SameAxes(node, node.shape.rank);
  for (ir::NodeId in : node.inputs) {
    if (graph.node(in).shape[axis] == graph.node(node.inputs[0]).shape[axis]) continue;
    axes.erase(axes.begin() + axis);
    break;
  }
  return axes;
}

std::vector<Axis> AxesOf(const Graph& graph, const Node& node, int64_t devices) {
  switch (node.op) {
    case Op::kPointwise: return SameAxes(node, node.shape.rank);
    case Op::kReduce: return ReduceAxes(node);
    case Op::kMatMul: return MatMulAxes(node);
    case Op::kConv: return ConvAxes(graph, node);
    case Op::kPool: return SameAxes(node, 2);
    case Op::kTopK: return SameAxes(node, node.shape.rank - 1);
    case Op::kConcat: return ConcatAxes(graph, node);
    case Op::kAttention: return AttentionAxes(graph, node, devices);
    default: return {};
  }
}

// The rule that divides the work along `axis` in runs of `unit`, each part on `copies` devices. False if a
// dim does not divide that way, or if copies would add to a sum more than once.
bool Divide(const Graph& graph, const Node& node, const Axis& axis, int64_t unit, int64_t devices,
            int64_t copies, Rule* rule) {
  *rule = WholeRule(node);
  if (copies > 1 && (axis.sums || node.op == Op::kAttention)) return false;
  const auto split = [&](const Shape& shape, const Place& place, Sharding* sharding) {
    if (place.dim < 0) return true;
    *sharding = SplitOf(shape, place.dim, unit * place.scale, devices, copies);
    // A reader must find the same dim in the sharding: a dim of 1 beside it makes no difference.
    return sharding->is_split() && DimOf(shape, *sharding, devices).dim == place.dim;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!split(graph.node(node.inputs[i]).shape, axis.inputs[i], &rule->inputs[i])) return false;
  }
  // If keys are whole, heads are looked up by number: each device has one range of them.
  const bool alone = node.op == Op::kAttention && axis.output.dim == 1 && axis.inputs[1].dim < 0;
  if (alone && unit * devices != node.shape[1]) return false;
  if (axis.sums) rule->output = kPartial;
  return axis.sums || split(node.shape, axis.output, &rule->output);
}

std::vector<Rule> ViewRules(const Graph& graph, const Node& node, int slot, Sharding sharding,
                            int64_t devices) {
  const ir::View& view = node.As<ir::ViewAttrs>().view;
  const int64_t elements = graph.node(node.inputs[0]).shape.elements();
  const Sharding other = slot < 0 ? ShardingBehind(view, elements, sharding, devices)
                                  : ShardingShown(view, elements, sharding, devices);
  if (!other.is_split()) return {};
  return {slot < 0 ? Rule{{other}, sharding} : Rule{{sharding}, other}};
}

// A read by index is split as its indices are, or as its data are. If the data are split along an index, each
// device's result is a summand.
std::vector<Rule> ReadRules(const Graph& graph, const Node& node, int slot, Sharding sharding,
                            int64_t devices) {
  const auto& attrs = node.As<ir::IndexedAttrs>();
  const int64_t elements = graph.node(node.inputs[0]).shape.elements();
  const auto rule = [&](Sharding data, Sharding shown) {
    Rule out{std::vector<Sharding>(node.inputs.size(), shown), shown};
    out.inputs[0] = data;
    return out;
  };
  if (slot == 0) {
    const Sharding shown = ShardingAccessed(attrs, elements, sharding, devices);
    if (shown.is_split()) return {rule(sharding, shown)};
    const auto local = LocaliseIndexed(attrs, elements, sharding, kWhole, devices, 0);
    if (!local || local->over < 0 || sharding.copies > 1) return {};
    Rule summand = rule(sharding, kWhole);
    summand.output = kPartial;
    return {summand};
  }
  std::vector<Rule> rules;
  const Sharding data = DataBehind(attrs, elements, sharding, devices);
  if (data.is_split()) rules.push_back(rule(data, sharding));
  if (LocaliseIndexed(attrs, elements, kWhole, sharding, devices, 0)) rules.push_back(rule(kWhole, sharding));
  return rules;
}

// A write stays on the device that holds the place.
std::vector<Rule> WriteRules(const Node& node, int slot, Sharding sharding, int64_t devices) {
  const auto& attrs = node.As<ir::IndexedAttrs>();
  const int64_t elements = node.shape.elements();
  const bool of_data = slot <= 0;
  const Sharding data = of_data ? sharding : DataBehind(attrs, elements, sharding, devices);
  const Sharding updates = of_data ? ShardingAccessed(attrs, elements, sharding, devices) : sharding;
  if (!data.is_split() || !updates.is_split() || DimOf(node.shape, data, devices).dim < 0) return {};
  Rule rule{std::vector<Sharding>(node.inputs.size(), updates), data};
  rule.inputs[0] = data;
  return {rule};
}

// For attention with fewer key and value heads than devices: divides the query heads, and puts each key and
// value head on all devices of its query heads. None for other nodes, or if the devices do not divide evenly
// among the heads.
std::optional<Rule> HeadsOnSeveral(const Graph& graph, const Node& node, int64_t devices) {
  if (node.op != Op::kAttention) return std::nullopt;
  const int64_t groups = graph.node(node.inputs[1]).shape[1], heads = node.shape[1];
  if (groups < 2 || groups >= devices || devices % groups != 0 || heads % devices != 0) return std::nullopt;
  Rule rule = WholeRule(node);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Shape& shape = graph.node(node.inputs[i]).shape;
    const bool shared = i == 1 || i == 2;
    rule.inputs[i] = SplitOf(shape, 1, shared ? 1 : heads / devices, devices, shared ? devices / groups : 1);
    if (DimOf(shape, rule.inputs[i], devices).dim != 1) return std::nullopt;
  }
  rule.output = SplitOf(node.shape, 1, heads / devices, devices);
  return DimOf(node.shape, rule.output, devices).dim == 1 ? std::optional(rule) : std::nullopt;
}

bool IsWeight(const Graph& graph, ir::NodeId id) { return graph.IsConstant(graph.BaseOf(id)); }

// Whether sharding may begin with this axis of AxesOf.
bool Begins(const Graph& graph, const Node& node, const Axis& axis) {
  switch (node.op) {
    case Op::kMatMul:
    case Op::kConv: {
      // Along an axis of the weight: its columns and rows, or its channels.
      if (IsWeight(graph, node.inputs[1])) return axis.inputs[1].dim >= 0;
      return IsWeight(graph, node.inputs[0]) && axis.inputs[0].dim >= 0;
    }
    case Op::kAttention: return axis.output.dim == 1;
    default: return false;
  }
}

}  // namespace

Rule WholeRule(const Node& node) { return {std::vector<Sharding>(node.inputs.size(), kWhole), kWhole}; }

std::vector<Rule> RulesWith(const Graph& graph, const Node& node, int slot, Sharding sharding,
                            int64_t devices) {
  switch (node.op) {
    case Op::kView: return ViewRules(graph, node, slot, sharding, devices);
    case Op::kIndexedRead: return ReadRules(graph, node, slot, sharding, devices);
    case Op::kIndexedWrite: return WriteRules(node, slot, sharding, devices);
    default: break;
  }
  const Shape& shape = slot < 0 ? node.shape : graph.node(node.inputs[static_cast<size_t>(slot)]).shape;
  const SplitDim split = DimOf(shape, sharding, devices);
  std::vector<Rule> rules;
  if (split.dim < 0) return rules;
  for (const Axis& axis : AxesOf(graph, node, devices)) {
    const Place& place = slot < 0 ? axis.output : axis.inputs[static_cast<size_t>(slot)];
    Rule rule;
    if (place.dim != split.dim || split.inner % place.scale != 0) continue;
    if (Divide(graph, node, axis, split.inner / place.scale, devices, sharding.copies, &rule))
      rules.push_back(rule);
  }
  return rules;
}

std::vector<Rule> PartialRules(const Graph& graph, const Node& node) {
  if (node.dtype == DType::kBool) return {};
  if (node.op == Op::kView) return {{{kPartial}, kPartial}};
  if (node.op == Op::kReduce && SumsOutermost(node)) return {{{kPartial}, kPartial}};
  if (node.op != Op::kPointwise) return {};
  // Inputs of another type would be summed in that type.
  for (ir::NodeId in : node.inputs) {
    if (graph.node(in).dtype != node.dtype) return {};
  }
  switch (node.As<ir::PointwiseAttrs>().op) {
    case TapeOp::kAdd:
    case TapeOp::kSub: return {{{kPartial, kPartial}, kPartial}};
    case TapeOp::kMul:
      if (!IsFloat(node.dtype)) return {};
      return {{{kPartial, kWhole}, kPartial}, {{kWhole, kPartial}, kPartial}};
    case TapeOp::kDiv:
      if (!IsFloat(node.dtype)) return {};
      return {{{kPartial, kWhole}, kPartial}};
    case TapeOp::kNeg: return {{{kPartial}, kPartial}};
    default: return {};
  }
}

std::vector<Rule> FirstRules(const Graph& graph, const Node& node, const Costs& costs) {
  const int64_t devices = costs.devices();
  std::vector<Rule> rules;
  const bool table = node.op == Op::kIndexedRead && IsWeight(graph, node.inputs[0]);
  if (table && costs.PaysAMessage(BytesOf(graph.node(node.inputs[0])))) {
    const Shape& table = graph.node(node.inputs[0]).shape;
    const Sharding rows = table.rank == 0 ? kWhole : SplitOf(table, 0, table[0] / devices, devices);
    if (rows.is_split()) rules = RulesWith(graph, node, 0, rows, devices);
  }
  if (const auto rule = HeadsOnSeveral(graph, node, devices)) rules.push_back(*rule);
  for (const Axis& axis : AxesOf(graph, node, devices)) {
    if (!Begins(graph, node, axis)) continue;
    // The axis's extent in any operand that has it.
    int64_t extent = axis.output.dim < 0 ? 0 : node.shape[axis.output.dim] / axis.output.scale;
    for (size_t i = 0; i < axis.inputs.size() && extent == 0; ++i) {
      const Place& place = axis.inputs[i];
      if (place.dim >= 0) extent = graph.node(node.inputs[i]).shape[place.dim] / place.scale;
    }
    Rule rule;
    if (extent % devices == 0 && extent > 0 &&
        Divide(graph, node, axis, extent / devices, devices, 1, &rule)) {
      rules.push_back(rule);
    }
  }
  return rules;
}

}  // namespace rondo::shard
