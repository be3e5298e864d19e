#include "compiler/quantise/quantise.h"
#include "compiler/quantise/steps.h"

namespace rondo::passes {

NodeId ReducedInput(const Graph& graph, NodeId id) {
  const Node& all = graph.node(id);
  if (all.op != Op::kReduce || all.shape.elements() != 1) return kNoNode;
  const ir::ReduceKind kind = all.As<ir::ReduceAttrs>().kind;
  if (kind != ir::ReduceKind::kMax && kind != ir::ReduceKind::kMin) return kNoNode;
  for (NodeId input = all.inputs[0];;) {
    const Node& base = graph.node(graph.BaseOf(input));
    const int64_t elements = base.shape.elements();
    const View view = graph.ViewOf(input);
    const bool whole = view.shape().elements() == elements && IsInjective(view);
    if (whole && base.op == Op::kReduce && base.As<ir::ReduceAttrs>().kind == kind) {
      input = base.inputs[0];
      continue;
    }
    return view.shape().elements() == 1 ? kNoNode : input;
  }
}

NodeId ReducedTensor(const Graph& graph, NodeId id) {
  const NodeId input = ReducedInput(graph, id);
  if (input == kNoNode) return kNoNode;
  const NodeId base = graph.BaseOf(input);
  const bool whole = graph.node(base).shape.elements() == graph.node(input).shape.elements();
  return whole && IsInjective(graph.ViewOf(input)) ? base : input;
}

Result<PassResult> FuseQuantRange(Graph* graph, const PassOptions& options) {
  PassResult result;
  const bool kernels = !graph->annotated;  // annotations bind nodes to kernels of their own
  const int64_t sums = kernels ? SumSmallMatmuls(graph) : 0;
  Tidy(graph);
  const int64_t scaled = FindScaledRanges(graph);
  Tidy(graph);
  const int64_t at_once = kernels ? FindRangesAtOnce(graph, options.target.clusters) : 0;
  Tidy(graph);
  const int64_t combined = kernels ? CombineRanges(graph) : 0;
  Tidy(graph);
  result.changes = sums + scaled + at_once + combined;
  result.text = Count(combined, "extreme") + " combined where the tensor is computed, " +
                std::to_string(scaled) + " from those of channels, " + std::to_string(at_once) +
                " of small tensors at once; " + Count(sums, "product") +
                " of one row summed where its range is found";
  return result;
}

}  // namespace rondo::passes
