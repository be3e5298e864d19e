#include <algorithm>
#include <optional>

#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"

namespace rondo::passes {

namespace {

// A piece: scale * (plain strides over `base`).
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

// concat(s * piece, t * piece, ...) -> (s, t, ...) * view, for evenly spaced pieces of one tensor
NodeId ViewOfPieces(Match& m) {
  const Graph& g = m.graph();
  const Node& concat = m.node();
  if (concat.inputs.size() < 2 || concat.shape.rank == kMaxRank || concat.shape.elements() == 0)
    return kNoNode;
  std::vector<Piece> pieces = EvenPieces(g, concat);
  if (pieces.empty()) return kNoNode;
  const bool scaled = std::any_of(pieces.begin(), pieces.end(), [](const Piece& p) { return p.scale != 1; });
  if (scaled && !IsFloat(concat.dtype)) return kNoNode;
  const int axis = concat.As<ir::ConcatAttrs>().axis;
  const Shape whole = concat.shape;
  // The pieces become a dim of their own before the axis.
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
  Builder b = m.Make();
  NodeId x = b.ViewNode(pieces[0].base, view);
  if (scaled) {
    Shape column;
    column.rank = step.shape.rank - axis;
    std::fill(column.dims, column.dims + column.rank, 1);
    column[0] = static_cast<int64_t>(pieces.size());
    std::vector<double> scales;
    for (const Piece& p : pieces) scales.push_back(p.scale);
    x = b.Mul(x, b.Floats(b.dtype(x), column, scales));
  }
  return b.Reshape(x, whole);
}

// The beginning of a view that is a slice along `axis` of a dense tensor of shape `of`.
std::optional<int64_t> BeginOfSlice(const ir::View& view, const Shape& of, int axis) {
  if (!view.affine() || view.shape().rank != of.rank) return std::nullopt;
  const ir::View dense = ir::DenseView(of);
  const int64_t begin = view.steps[0].offset / dense.steps[0].strides[axis], count = view.shape()[axis];
  const bool inside = begin >= 0 && count >= 1 && begin + count <= of[axis];
  return inside && view == ir::Slice(dense, axis, begin, 1, count) ? std::optional<int64_t>(begin)
                                                                   : std::nullopt;
}

// slice(concat(p, q, ...)) -> concat(slice(p), q, ...), if nothing else reads the concatenation, and only
// pieces are cut that would be copied anyway
NodeId SliceOfPieces(Match& m) {
  Graph& g = m.graph();
  const NodeId base = g.BaseOf(m.root());
  const Node& concat = g.node(base);
  if (concat.op != Op::kConcat || g.IsOutput(base) || g.UsersOf(base).size() != 1) return kNoNode;
  const int axis = concat.As<ir::ConcatAttrs>().axis;
  const ir::View view = g.ViewOf(m.root());
  const std::optional<int64_t> begin = BeginOfSlice(view, concat.shape, axis);
  if (!begin) return kNoNode;
  const int64_t end = *begin + view.shape()[axis];
  Builder b = m.Make();
  std::vector<NodeId> parts;
  int64_t at = 0;  // offset of the piece along the axis
  for (NodeId piece : std::vector<NodeId>(concat.inputs)) {
    const int64_t extent = b.shape(piece)[axis];
    const int64_t low = std::max(*begin, at) - at, high = std::min(end, at + extent) - at;
    at += extent;
    if (low >= high) continue;
    const Op op = g.node(g.BaseOf(piece)).op;
    if (high - low < extent && op != Op::kInput && op != Op::kConstant) return kNoNode;
    parts.push_back(b.Slice(piece, axis, low, 1, high - low));
  }
  return b.Concat(parts, axis);
}

}  // namespace

Result<PassResult> RecogniseConcat(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  result.changes = Total(ApplyOnce(graph, {{Op::kConcat, ViewOfPieces}, {Op::kView, SliceOfPieces}}));
  result.text = Count(result.changes, "concatenation") + " made views, or of fewer elements";
  return result;
}

}  // namespace rondo::passes
