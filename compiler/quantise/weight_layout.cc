#include "compiler/quantise/weight_layout.h"

namespace rondo::passes {

namespace {

// Whether `reader` reads `shown`, a view of the matrix, as its rhs, with the same layout as earlier readers.
bool Read(const Graph& g, NodeId reader, NodeId shown, const Shape& matrix,
          std::optional<WeightLayout>* found) {
  const Node& n = g.node(reader);
  if (n.op != ir::Op::kMatMul || n.inputs[1] != shown || n.inputs[0] == shown) return false;
  const ir::View view = g.ViewOf(shown);
  if (!view.affine()) return false;
  const ir::ViewStep& step = view.steps[0];
  const int r = step.shape.rank;
  if (r < 2) return false;
  const int64_t columns = matrix[1];
  WeightLayout layout;
  if (step.strides[r - 2] == 1 && step.strides[r - 1] == columns && step.shape[r - 2] == columns) {
    layout = {matrix[0], columns, columns, 1};
  } else if (step.strides[r - 2] == columns && step.strides[r - 1] == 1 && step.shape[r - 2] == matrix[0]) {
    layout = {columns, matrix[0], 1, columns};
  } else {
    return false;
  }
  if (*found && (*found)->k_stride != layout.k_stride) return false;
  *found = layout;
  return true;
}

}  // namespace

std::optional<WeightLayout> WeightLayoutOf(Graph* graph, NodeId id) {
  const Shape& shape = graph->node(id).shape;
  if (shape.rank != 2 || graph->IsOutput(id)) return std::nullopt;
  std::optional<WeightLayout> found;
  for (NodeId user : graph->UsersOf(id)) {
    if (graph->node(user).op != ir::Op::kView) {
      if (!Read(*graph, user, id, shape, &found)) return std::nullopt;
      continue;
    }
    if (graph->IsOutput(user)) return std::nullopt;
    for (NodeId reader : graph->UsersOf(user)) {
      if (!Read(*graph, reader, user, shape, &found)) return std::nullopt;
    }
  }
  if (found && (found->n < 16 || found->k < 32)) return std::nullopt;
  return found;
}

}  // namespace rondo::passes
