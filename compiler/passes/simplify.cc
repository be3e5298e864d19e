#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/rebase.h"
#include "compiler/ir/walk.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/rewrite.h"
#include "compiler/passes/sign_facts.h"
#include "core/scalar.h"

namespace rondo::passes {

namespace {

// Whether `to` can represent every value of `from`.
bool HoldsExactly(DType from, DType to) {
  if (from == to || from == DType::kBool) return true;
  if (to == DType::kBool) return false;
  const DTypeFacts &less = FactsOf(from), &more = FactsOf(to);
  if (IsFloat(from))
    return IsFloat(to) && more.digits > less.digits && more.exponent >= less.exponent && !IsFp8(to);
  if (IsFloat(to)) return 8 * ByteSize(from) <= more.digits && to != DType::kF16 && !IsFp8(to);
  if (more.kind == DTypeKind::kUnsigned && less.kind != DTypeKind::kUnsigned) return false;
  return ByteSize(to) > ByteSize(from);
}

// -------------------------------------------------------------------------------------- arithmetic

bool ComputesFloats(Match& m) { return IsFloat(m.node().dtype); }

// Whether x + zero, or x - zero, is x: -0 + 0 and -0 - -0 are +0.
bool IsNothing(Match& m, bool added) {
  const double zero = m[pattern::a];
  return zero == 0 &&
         (!ComputesFloats(m) || std::signbit(zero) == added || IsNeverMinusZero(m.graph(), m[pattern::x]));
}

// Whether (x * a) * b overflows, or underflows to 0, for the same x as x * (a * b): both factors scale in
// the same direction.
bool AreOneFactor(Match& m) {
  const DType type = m.node().dtype;
  if (type != DType::kF32 && type != DType::kF64) return false;
  const double x = std::abs(m[pattern::a]), y = std::abs(m[pattern::b]), both = x * y;
  const bool is_wide = type == DType::kF64;
  const double least = is_wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min(),
               most = is_wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return ((x >= 1 && y >= 1) || (x <= 1 && y <= 1)) && both >= least && both <= most;
}

// The root of -0 is -0, and of -inf NaN, while powers of both are +0 or +inf.
NodeId RootPower(Match& m, TapeOp root, double of_minus_infinity) {
  if (!ComputesFloats(m)) return kNoNode;
  Builder b = m.Make();
  const NodeId x = m[pattern::x], y = b.Unary(root, x);
  if (IsNeverNegative(m.graph(), x)) return y;
  constexpr int64_t kMinus = 2;
  return b.Select(b.Unary(TapeOp::kIsInf, x, kMinus), b.Scalar(m.node().dtype, of_minus_infinity),
                  b.Unary(TapeOp::kAbs, y));
}

// Whether y, a cast of x, holds every value of x.
bool IsWidened(Match& m) { return HoldsExactly(m.dtype(pattern::x), m.dtype(pattern::y)); }

// -------------------------------------------------------------------------------- pieces and places

// Pieces are rounded before they are concatenated, so that memory holds the narrow numbers.
NodeId NarrowedPieces(Match& m) {
  Graph& g = m.graph();
  const NodeId joined = m.node().inputs[0];
  const DType narrow = m.node().dtype;
  if (g.node(joined).op != Op::kConcat || ByteSize(narrow) >= ByteSize(g.node(joined).dtype) ||
      g.UsersOf(joined).size() != 1 || g.IsOutput(joined))
    return kNoNode;
  Builder b = m.Make();
  std::vector<NodeId> pieces;
  for (NodeId piece : g.node(joined).inputs) pieces.push_back(b.Cast(piece, narrow));
  return b.Concat(pieces, g.node(joined).As<ir::ConcatAttrs>().axis);
}

// Sums, products, maxima and minima over dims of one element.
NodeId Reduction(Match& m) {
  const Node& n = m.node();
  const ir::ReduceAttrs& attrs = n.As<ir::ReduceAttrs>();
  if (attrs.kind == ir::ReduceKind::kArgMax || attrs.kind == ir::ReduceKind::kArgMin) return kNoNode;
  return n.shape == m.graph().node(n.inputs[0]).shape ? n.inputs[0] : kNoNode;
}

// The piece that shows the elements of both, one after the other; kNoNode if there is none.
NodeId Joined(Builder& b, NodeId first, NodeId second, int axis) {
  const Graph& g = b.graph();
  if (g.node(first).op != Op::kView || g.node(second).op != Op::kView) return kNoNode;
  NodeId base = g.BaseOf(first);
  ir::View a = g.ViewOf(first), c = g.ViewOf(second);
  if (base != g.BaseOf(second) || !a.affine() || !c.affine()) return kNoNode;
  const ir::ViewStep &x = a.steps[0], &y = c.steps[0];
  int64_t stride = x.shape[axis] > 1   ? x.strides[axis]
                   : y.shape[axis] > 1 ? y.strides[axis]
                                       : y.offset - x.offset;
  if (x.shape[axis] > 1 && y.shape[axis] > 1 && x.strides[axis] != y.strides[axis]) return kNoNode;
  if (y.offset != x.offset + stride * x.shape[axis]) return kNoNode;
  for (int d = 0; d < x.shape.rank; ++d) {
    if (d != axis && x.shape[d] > 1 && x.strides[d] != y.strides[d]) return kNoNode;
  }
  ir::View both = a;
  both.steps[0].strides[axis] = stride;
  both.steps[0].shape[axis] += y.shape[axis];
  return b.ViewNode(base, both);
}

// Adjacent pieces that are contiguous in their base become one piece.
NodeId Concatenation(Match& m) {
  const int axis = m.node().As<ir::ConcatAttrs>().axis;
  std::vector<NodeId> pieces;
  bool changed = false;
  Builder b = m.Make();
  for (NodeId in : m.node().inputs) {
    if (b.shape(in).elements() == 0) {
      changed = true;
      continue;
    }
    NodeId joined = pieces.empty() ? kNoNode : Joined(b, pieces.back(), in, axis);
    changed = changed || joined != kNoNode;
    if (joined != kNoNode) {
      pieces.back() = joined;
    } else {
      pieces.push_back(in);
    }
  }
  if (pieces.empty() || (!changed && pieces.size() > 1)) return kNoNode;
  return b.Concat(pieces, axis);
}

// The elements named by constant indices, as a view, if they are evenly spaced.
std::optional<ir::View> ConstantElements(Match& m, size_t first) {
  const ir::IndexedAttrs& attrs = m.node().As<ir::IndexedAttrs>();
  const Shape& shape = attrs.map.shape();
  constexpr int64_t kMostElements = 1 << 18;
  if (shape.elements() == 0 || shape.elements() > kMostElements || shape.rank == 0) return std::nullopt;
  std::vector<int64_t> at = ir::ResolveAll(attrs.map);
  const Builder b = m.Make();
  for (size_t k = 0; k < attrs.dims.size(); ++k) {
    std::vector<int64_t> index;
    if (!b.ConstantInts(m.node().inputs[first + k], &index)) return std::nullopt;
    for (size_t i = 0; i < at.size(); ++i) {
      int64_t v = index[i] < 0 && attrs.dims[k].wrap ? index[i] + attrs.dims[k].extent : index[i];
      if (v < 0 || v >= attrs.dims[k].extent) return std::nullopt;
      at[i] += v * attrs.dims[k].stride;
    }
  }
  ir::View view = ir::DenseView(shape);
  ir::ViewStep& step = view.steps[0];
  int64_t run = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    step.strides[d] = shape[d] > 1 ? at[static_cast<size_t>(run)] - at[0] : 0;
    run *= shape[d];
  }
  step.offset = at[0];
  return ir::ResolveAll(view) == at ? std::optional<ir::View>(view) : std::nullopt;
}

NodeId Read(Match& m) {
  const std::vector<NodeId> in = m.node().inputs;
  if (std::optional<ir::View> view = ConstantElements(m, 1)) return m.Make().ViewNode(in[0], *view);
  const Graph& g = m.graph();
  ir::IndexedAttrs attrs = m.node().As<ir::IndexedAttrs>();
  // Elements are widened after they are read, so that no wide copy of all elements is needed.
  const Node& wide = g.node(in[0]);
  if (wide.op == Op::kPointwise && wide.As<ir::PointwiseAttrs>().op == TapeOp::kCast &&
      HoldsExactly(g.node(wide.inputs[0]).dtype, wide.dtype)) {
    Builder b = m.Make();
    return b.Cast(b.IndexedRead(wide.inputs[0], {in.begin() + 1, in.end()}, attrs, m.node().shape),
                  wide.dtype);
  }
  // Reads of a view become reads of its storage.
  if (g.node(in[0]).op != Op::kView || !ir::Rebase(g.ViewOf(in[0]), &attrs)) return kNoNode;
  return m.Make().IndexedRead(g.BaseOf(in[0]), {in.begin() + 1, in.end()}, attrs, m.node().shape);
}

NodeId Write(Match& m) {
  const ir::IndexedAttrs& attrs = m.node().As<ir::IndexedAttrs>();
  const NodeId data = m.node().inputs[0], updates = m.node().inputs[1];
  const Shape shape = m.node().shape;
  if (attrs.combine != ir::ScatterCombine::kNone) return kNoNode;
  if (attrs.dims.empty())
    return ir::IsDense(attrs.map, shape.elements()) ? m.Make().Reshape(updates, shape) : kNoNode;
  const std::optional<ir::View> view = ConstantElements(m, 2);
  if (!view || !IsInjective(*view)) return kNoNode;
  ir::IndexedAttrs fixed;
  fixed.map = *view;
  fixed.may_collide = false;
  return m.Make().IndexedWrite(data, updates, {}, fixed);
}

std::vector<Rewrite> Rules() {
  using namespace pattern;
  return {
      {x * 1, x},
      // (x * a) * b -> x * (a * b)
      {(x * a).Once() * b,
       [](Match& m) {
         return AreOneFactor(m) ? m.Make().BinaryScalar(TapeOp::kMul, m[x], m[a] * m[b]) : kNoNode;
       }},
      {x + a, x, [](Match& m) { return IsNothing(m, true); }},
      {x - a, x, [](Match& m) { return IsNothing(m, false); }},
      {x / 1, x},
      {1 / Sqrt(x), Rsqrt(x), ComputesFloats},
      {1 / x, Reciprocal(x), ComputesFloats},
      {Reciprocal(Sqrt(x)), Rsqrt(x), ComputesFloats},
      {Pow(x, 1), x},
      {Pow(x, 2), x * x},
      {Pow(x, 3), x * x * x},
      // x^0.5 -> sqrt(x), and x^-0.5 -> rsqrt(x); more steps where x may be -0 or -inf
      {Pow(x, 0.5), [](Match& m) { return RootPower(m, TapeOp::kSqrt, HUGE_VAL); }},
      {Pow(x, -0.5), [](Match& m) { return RootPower(m, TapeOp::kRsqrt, 0); }},
      {Pow(x, -1), Reciprocal(x), ComputesFloats},
      {Select(0, x, y), y},
      {Select(a, x, y), x},
      {Select(y, x, x), x},
      {-(-x), x},
      {Not(Not(x)), x, [](Match& m) { return m.dtype(x) == DType::kBool; }},
      {Cast(x), x, [](Match& m) { return m.dtype(x) == m.node().dtype; }},
      {Cast(x), NarrowedPieces},
      // cast(cast(x)) -> cast(x), if the type between holds every value
      {Cast(Cast(x).As(y).Shown()),
       [](Match& m) { return IsWidened(m) ? m.Make().Cast(m[x], m.node().dtype) : kNoNode; }},
      // isinf(cast(x)) -> isinf(x), and isnan likewise
      {Pattern(TapeOp::kIsInf, {Cast(x).As(y).Shown()}) | Pattern(TapeOp::kIsNan, {Cast(x).As(y).Shown()}),
       [](Match& m) {
         const ir::PointwiseAttrs test = m.node().As<ir::PointwiseAttrs>();
         return IsWidened(m) && IsFloat(m.dtype(x)) ? m.Make().Unary(test.op, m[x], test.immediate) : kNoNode;
       }},
      {Op::kReduce, Reduction},
      {Op::kConcat, Concatenation},
      {Op::kIndexedRead, Read},
      {Op::kIndexedWrite, Write},
  };
}

}  // namespace

Result<PassResult> Simplify(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  result.changes = Total(ToFixedPoint(graph, Rules()));
  result.text = Count(result.changes, "node") + " simplified";
  return result;
}

}  // namespace rondo::passes
