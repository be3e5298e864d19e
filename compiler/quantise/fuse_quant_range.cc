#include "compiler/quantise/quantise.h"
#include "compiler/quantise/steps.h"

namespace rondo::passes {

NodeId ReducedPicture(const Graph& graph, NodeId id) {
  const Node& all = graph.node(id);
  if (all.op != Op::kReduce || all.shape.elements() != 1) return kNoNode;
  const ir::ReduceKind kind = all.As<ir::ReduceAttrs>().kind;
  if (kind != ir::ReduceKind::kMax && kind != ir::ReduceKind::kMin) return kNoNode;
  NodeId at = id;
  while (graph.node(at).op == Op::kReduce && graph.node(at).As<ir::ReduceAttrs>().kind == kind) {
    const NodeId input = graph.node(at).inputs[0], base = graph.BaseOf(input);
    if (!ir::IsDense(graph.ViewOf(input), graph.node(base).shape.elements())) return kNoNode;
    at = base;
  }
  return graph.node(at).shape.elements() > 1 ? at : kNoNode;
}

Result<PassResult> FuseQuantRange(Graph* graph, const PassOptions& options) {
  PassResult result;
  const bool kernels = !graph->annotated;  // annotations bind nodes to kernels of their own
  const int64_t sums = kernels ? SumSmallMatmuls(graph) : 0;
  Tidy(graph);
  const int64_t scaled = FindScaledRanges(graph);
  Tidy(graph);
  const int64_t combined = kernels ? FindRangesInProducers(graph) : 0;
  Tidy(graph);
  const int64_t rows = kernels ? FindRangesInReaders(graph, options.target.clusters) : 0;
  Tidy(graph);
  result.changes = sums + scaled + combined + rows;
  result.text = Count(combined, "extreme") + " found by kernels that compute pictures, " +
                std::to_string(scaled) + " from those of channels; " + Count(rows, "picture") +
                " quantised by ranges that rows find; " + Count(sums, "product") +
                " of one row summed where its range is found";
  return result;
}

}  // namespace rondo::passes
