#include <algorithm>

#include "compiler/ir/evaluate.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

// The value of an input of a node to be folded: a constant, a view of one, or a short iota. Null if it is
// unknown or larger than `most_bytes`.
std::shared_ptr<const ir::ConstantData> KnownValue(const ir::Builder& b, const ir::Graph& g, NodeId id,
                                                   int64_t most_bytes) {
  const Node& node = g.node(id);
  if (node.shape.elements() * ByteSize(node.dtype) > most_bytes) return nullptr;
  std::shared_ptr<const ir::ConstantData> value;
  if (b.ConstantValue(id, most_bytes, &value)) return value;
  const Node& base = g.node(g.BaseOf(id));
  if (base.op != Op::kIota || base.shape.elements() * ByteSize(base.dtype) > most_bytes) return nullptr;
  Result<std::shared_ptr<const ir::ConstantData>> line = ir::EvaluateNode(base, {});
  if (!line.ok() || node.op != Op::kView) return line.ok() ? line.Take() : nullptr;
  Result<std::shared_ptr<const ir::ConstantData>> shown = ir::EvaluateNode(node, {*line});
  return shown.ok() ? shown.Take() : nullptr;
}

// Whether pointwise operations on constants, so many behind one another, make it.
bool IsMadeOfConstants(const ir::Graph& g, NodeId id, int depth) {
  const Node& node = g.node(g.BaseOf(id));
  if (node.op == Op::kConstant) return true;
  return depth > 0 && node.op == Op::kPointwise &&
         std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](NodeId input) { return IsMadeOfConstants(g, input, depth - 1); });
}

// The same for an input that is itself too large to become a constant, as the squares of a weight are whose
// norm is small.
std::shared_ptr<const ir::ConstantData> ComputedValue(const ir::Builder& b, const ir::Graph& g, NodeId id) {
  const Node& base = g.node(g.BaseOf(id));
  ir::Values values;
  for (NodeId input : base.inputs) {
    values.push_back(g.node(g.BaseOf(input)).op == Op::kConstant ? KnownValue(b, g, input, INT64_MAX)
                                                                 : ComputedValue(b, g, input));
    if (!values.back()) return nullptr;
  }
  if (!ir::SpendOnFolding(g, base, 0)) return nullptr;
  Result<std::shared_ptr<const ir::ConstantData>> value = ir::EvaluateNode(base, values);
  if (value.ok() && g.node(id).op == Op::kView) value = ir::EvaluateNode(g.node(id), {*value});
  return value.ok() ? value.Take() : nullptr;
}

// Whether it is a large FP8 constant, which would need four times the memory.
bool IsFp8Weight(const ir::Graph& g, const Node& node) {
  constexpr int64_t kFew = 4096;
  return node.shape.elements() > kFew && std::any_of(node.inputs.begin(), node.inputs.end(),
                                                     [&](NodeId id) { return IsFp8(g.node(id).dtype); });
}

// Whether it depends on no run-time value, as far as `depth` nodes show.
bool MayFold(const ir::Graph& g, NodeId id, int depth) {
  const Node& node = g.node(g.BaseOf(id));
  if (depth == 0 || node.op == Op::kConstant || node.op == Op::kIota) return true;
  return node.op != Op::kInput && std::all_of(node.inputs.begin(), node.inputs.end(),
                                              [&](NodeId input) { return MayFold(g, input, depth - 1); });
}

// Whether it is a comparison of positions, which kernels compute on the fly, while a constant would have to
// be read. Still folded if its readers become constants as well.
bool IsBetterComputed(ir::Graph& g, const Node& node, const PassOptions& options) {
  constexpr int64_t kFew = 4096;
  constexpr int kDepth = 8;
  if (!options.target.many_threads || node.op != Op::kPointwise || node.shape.elements() <= kFew)
    return false;
  const TapeOp op = node.As<ir::PointwiseAttrs>().op;
  const auto counts = [&](NodeId id) { return g.node(g.BaseOf(id)).op == Op::kIota; };
  if ((op != TapeOp::kLess && op != TapeOp::kLessEqual) || !counts(node.inputs[0]) || !counts(node.inputs[1]))
    return false;
  const std::vector<NodeId> readers = g.UsersOf(node.id);
  return std::none_of(readers.begin(), readers.end(), [&](NodeId reader) {
    return g.node(reader).op != Op::kPointwise || MayFold(g, reader, kDepth);
  });
}

// Whether the result takes the place of a constant of at least its size, which nothing else reads: a weight's
// scale or norm, multiplied into it.
bool TakesThePlaceOfAnInput(ir::Graph& g, const Node& node, int64_t bytes) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
    const NodeId base = g.BaseOf(input);
    return g.node(base).op == Op::kConstant && g.UsersOf(base).size() == 1 && g.UsersOf(input).size() == 1 &&
           g.OutputsAt(base).empty() && g.OutputsAt(input).empty() &&
           g.node(base).shape.elements() * ByteSize(g.node(base).dtype) >= bytes;
  });
}

}  // namespace

Result<PassResult> FoldConstants(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  int64_t bytes = 0;
  for (NodeId id : graph->TopologicalOrder()) {
    const Node& node = graph->node(id);
    if (node.op == Op::kInput || node.op == Op::kConstant || node.op == Op::kView || node.op == Op::kIota)
      continue;
    int64_t size = node.shape.elements() * ByteSize(node.dtype);
    if (node.inputs.empty() || IsFp8Weight(*graph, node) || IsBetterComputed(*graph, node, options) ||
        (size > options.fold_bytes && !TakesThePlaceOfAnInput(*graph, node, size)))
      continue;
    // What is small may be computed from what is large: the budget of work is the limit.
    constexpr int kDepth = 3;
    const ir::Builder builder(graph);
    ir::Values values;
    for (NodeId in : node.inputs) {
      const Op op = graph->node(graph->BaseOf(in)).op;
      if (op == Op::kPointwise && IsMadeOfConstants(*graph, in, kDepth)) {
        values.push_back(ComputedValue(builder, *graph, in));
      } else {
        values.push_back(
            KnownValue(builder, *graph, in, op == Op::kConstant ? INT64_MAX : options.fold_bytes));
      }
      if (!values.back()) break;
    }
    if (!values.back() || !ir::SpendOnFolding(*graph, node, size)) continue;
    Result<std::shared_ptr<const ir::ConstantData>> value = ir::EvaluateNode(node, values);
    if (!value.ok()) continue;  // an index out of range: the run reports it if it gets there
    graph->Replace(id, BuilderLike(graph, id).Constant(value.Take()));
    ++result.changes;
    bytes += size;
  }
  Tidy(graph);
  result.text = Count(result.changes, "node") + " folded into " + std::to_string(bytes) + " bytes";
  return result;
}

}  // namespace rondo::passes
