#include <algorithm>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

// What a piece shows: scale * (plain strides over `base`).
struct Piece {
  NodeId base = kNoNode;
  ir::ViewStep step;
  double scale = 1;
};

std::optional<Piece> PieceOf(const Graph& g, NodeId id) {
  Piece piece;
  ir::View view = g.ViewOf(id);
  NodeId at = g.BaseOf(id);
  // Negation and scaling commute with movement.
  for (;;) {
    NodeId x = kNoNode;
    if (const Node* neg = AsPointwise(g, at, TapeOp::kNeg)) {
      x = neg->inputs[0];
      piece.scale = -piece.scale;
    } else if (std::optional<ScalarUse> mul = WithScalar(g, at, TapeOp::kMul)) {
      x = mul->x;
      piece.scale *= mul->value;
    } else {
      break;
    }
    view = ir::Compose(g.ViewOf(x), view);
    at = g.BaseOf(x);
  }
  if (!view.affine()) return std::nullopt;
  piece.base = at;
  piece.step = view.steps[0];
  return piece;
}

bool SameSpacing(const ir::ViewStep& a, const ir::ViewStep& b) {
  ir::ViewStep moved = b;
  moved.offset = a.offset;
  return a == moved;
}

// The pieces of a concatenation, if they are alike and evenly spaced in one base.
std::vector<Piece> EvenPieces(const Graph& g, const Node& concat) {
  std::vector<Piece> pieces;
  for (NodeId in : concat.inputs) {
    std::optional<Piece> piece = PieceOf(g, in);
    if (!piece) return {};
    pieces.push_back(*piece);
  }
  int64_t spacing = pieces[1].step.offset - pieces[0].step.offset;
  for (size_t i = 1; i < pieces.size(); ++i) {
    bool even = pieces[i].base == pieces[0].base && SameSpacing(pieces[0].step, pieces[i].step) &&
                pieces[i].step.offset - pieces[i - 1].step.offset == spacing;
    if (!even) return {};
  }
  return pieces;
}

NodeId Rewrite(Graph* g, NodeId id) {
  const Node& concat = g->node(id);
  if (concat.inputs.size() < 2 || concat.shape.rank == kMaxRank || concat.shape.elements() == 0)
    return kNoNode;
  std::vector<Piece> pieces = EvenPieces(*g, concat);
  if (pieces.empty()) return kNoNode;
  const bool scaled = std::any_of(pieces.begin(), pieces.end(), [](const Piece& p) { return p.scale != 1; });
  if (scaled && !IsFloat(concat.dtype)) return kNoNode;
  const int axis = concat.As<ir::ConcatAttrs>().axis;
  const Shape whole = concat.shape;
  // The pieces are a dim of their own before the axis.
  ir::View view;
  view.steps.push_back(pieces[0].step);
  ir::ViewStep& step = view.steps[0];
  for (int d = step.shape.rank; d > axis; --d) {
    step.shape[d] = step.shape[d - 1];
    step.strides[d] = step.strides[d - 1];
  }
  ++step.shape.rank;
  step.shape[axis] = static_cast<int64_t>(pieces.size());
  step.strides[axis] = pieces[1].step.offset - pieces[0].step.offset;
  ir::Builder b = BuilderLike(g, id);
  NodeId x = b.ViewNode(pieces[0].base, view);
  if (scaled) {
    Shape column;
    column.rank = step.shape.rank - axis;
    std::fill(column.dims, column.dims + column.rank, 1);
    column[0] = static_cast<int64_t>(pieces.size());
    std::vector<double> scales;
    for (const Piece& p : pieces) scales.push_back(p.scale);
    x = b.Mul(x, b.Floats(g->node(x).dtype, column, scales));
  }
  return b.Reshape(x, whole);
}

}  // namespace

Result<PassResult> RecogniseConcat(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  for (NodeId id : graph->TopologicalOrder()) {
    if (graph->node(id).op != Op::kConcat) continue;
    NodeId instead = Rewrite(graph, id);
    if (instead == kNoNode || !graph->CanReplace(id, instead)) continue;
    graph->Replace(id, instead);
    ++result.changes;
  }
  Tidy(graph);
  result.text = Count(result.changes, "concatenation") + " made views";
  return result;
}

}  // namespace rondo::passes
