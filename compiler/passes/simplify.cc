#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/rebase.h"
#include "compiler/ir/walk.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
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

// One node and its possible replacement. Each rule returns the replacement, or kNoNode.
struct Rules {
  Graph* g;
  NodeId id;
  const ir::Users* users;

  Builder Make() const { return BuilderLike(g, id); }
  const Node& node() const { return g->node(id); }

  NodeId Arithmetic() const {
    const Node& n = node();
    const std::vector<NodeId> in = n.inputs;
    TapeOp op = n.As<ir::PointwiseAttrs>().op;
    auto uniform = [&](size_t k) { return UniformValue(*g, in[k]); };
    switch (op) {
      case TapeOp::kMul:
        if (std::optional<ScalarUse> s = WithScalar(*g, id, op)) return Scaled(*s);
        return kNoNode;
      case TapeOp::kAdd:
        if (std::optional<ScalarUse> s = WithScalar(*g, id, op); s && IsNothing(s->x, s->value, true))
          return s->x;
        return kNoNode;
      case TapeOp::kSub: return uniform(1) && IsNothing(in[0], *uniform(1), false) ? in[0] : kNoNode;
      case TapeOp::kDiv:
        if (uniform(1) == 1.0) return in[0];
        if (uniform(0) == 1.0 && IsFloat(n.dtype)) return Reciprocal(in[1]);
        return kNoNode;
      case TapeOp::kReciprocal: return IsFloat(n.dtype) ? Rsqrt(in[0]) : kNoNode;
      case TapeOp::kPow: {
        std::optional<double> e = uniform(1);
        return e ? Power(in[0], *e) : kNoNode;
      }
      case TapeOp::kSelect: {
        std::optional<double> c = uniform(0);
        return c ? in[*c != 0 ? 1 : 2] : in[1] == in[2] ? in[1] : kNoNode;
      }
      case TapeOp::kCast: return CastOfCast(in[0]);
      case TapeOp::kIsInf:
      case TapeOp::kIsNan: {
        const NodeId x = Widened(in[0]);
        return x == kNoNode || !IsFloat(g->node(x).dtype)
                   ? kNoNode
                   : Make().Unary(op, x, n.As<ir::PointwiseAttrs>().immediate);
      }
      case TapeOp::kNeg:
      case TapeOp::kNot: {
        const Node* inner = AsPointwise(*g, in[0], op);
        if (inner != nullptr && (op == TapeOp::kNeg || g->node(inner->inputs[0]).dtype == DType::kBool)) {
          return inner->inputs[0];
        }
        return kNoNode;
      }
      default: return kNoNode;
    }
  }

  // For the graph at the beginning of the round; readers of nodes added since are unknown.
  bool HasOneUser(NodeId x) const {
    return static_cast<size_t>(x) < users->size() && (*users)[static_cast<size_t>(x)].size() == 1;
  }

  // Whether x + zero, or x - zero, is x: -0 + 0 and -0 - -0 are +0.
  bool IsNothing(NodeId x, double zero, bool added) const {
    return zero == 0 && (!IsFloat(node().dtype) || std::signbit(zero) == added || IsNeverMinusZero(*g, x));
  }

  // x * c, if x is itself a multiplication by a constant, without other readers.
  NodeId Scaled(const ScalarUse& use) const {
    if (use.value == 1) return use.x;
    if (node().dtype != DType::kF32 && node().dtype != DType::kF64) return kNoNode;
    std::optional<ScalarUse> inner = WithScalar(*g, use.x, TapeOp::kMul);
    if (!inner || !HasOneUser(use.x) || !AreOneFactor(inner->value, use.value)) return kNoNode;
    return Make().BinaryScalar(TapeOp::kMul, inner->x, inner->value * use.value);
  }

  // Whether (x * a) * b overflows, or underflows to 0, for the same x as x * (a * b): both factors scale in
  // the same direction.
  bool AreOneFactor(double a, double b) const {
    const double both = std::abs(a * b), x = std::abs(a), y = std::abs(b);
    const bool is_wide = node().dtype == DType::kF64;
    const double least = is_wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min(),
                 most = is_wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
    return ((x >= 1 && y >= 1) || (x <= 1 && y <= 1)) && both >= least && both <= most;
  }

  NodeId Reciprocal(NodeId x) const {
    NodeId rsqrt = Rsqrt(x);
    return rsqrt != kNoNode ? rsqrt : Make().Unary(TapeOp::kReciprocal, x);
  }

  NodeId Rsqrt(NodeId x) const {
    const Node* sqrt = AsPointwise(*g, x, TapeOp::kSqrt);
    return sqrt == nullptr ? kNoNode : Make().Unary(TapeOp::kRsqrt, sqrt->inputs[0]);
  }

  NodeId Power(NodeId x, double e) const {
    Builder b = Make();
    if (e == 1) return x;
    if (e == 2) return b.Mul(x, x);
    if (e == 3) return b.Mul(b.Mul(x, x), x);
    if (!IsFloat(node().dtype)) return kNoNode;
    if (e == 0.5 || e == -0.5) return RootPower(x, e);
    if (e == -1) return b.Unary(TapeOp::kReciprocal, x);
    return kNoNode;
  }

  // The root of -0 is -0, and of -inf NaN, while powers of both are +0 or +inf.
  NodeId RootPower(NodeId x, double e) const {
    Builder b = Make();
    const NodeId root = b.Unary(e > 0 ? TapeOp::kSqrt : TapeOp::kRsqrt, x);
    if (IsNeverNegative(*g, x)) return root;
    constexpr int64_t kMinus = 2;
    const double of_minus_infinity = e > 0 ? std::numeric_limits<double>::infinity() : 0;
    return b.Select(b.Unary(TapeOp::kIsInf, x, kMinus), b.Scalar(node().dtype, of_minus_infinity),
                    b.Unary(TapeOp::kAbs, root));
  }

  // The input of `in`, if that is a cast to a type that holds every value exactly.
  NodeId Widened(NodeId in) const {
    const Node* cast = AsPointwise(*g, g->BaseOf(in), TapeOp::kCast);
    if (cast == nullptr) return kNoNode;
    const DType narrow = g->node(cast->inputs[0]).dtype;
    if (!HoldsExactly(narrow, cast->dtype)) return kNoNode;
    return Make().ViewNode(cast->inputs[0], g->ViewOf(in));
  }

  // x -> wider -> anything is x -> anything.
  NodeId CastOfCast(NodeId in) const {
    if (g->node(in).dtype == node().dtype) return in;
    const NodeId x = Widened(in);
    return x == kNoNode ? kNoNode : Make().Cast(x, node().dtype);
  }

  // Sums, products, maxima and minima over dims of one element.
  NodeId Reduction() const {
    const Node& n = node();
    const ir::ReduceAttrs& attrs = n.As<ir::ReduceAttrs>();
    if (attrs.kind == ir::ReduceKind::kArgMax || attrs.kind == ir::ReduceKind::kArgMin) return kNoNode;
    return n.shape == g->node(n.inputs[0]).shape ? n.inputs[0] : kNoNode;
  }

  // Adjacent pieces that are contiguous in their base become one piece.
  NodeId Concatenation() const {
    const Node& n = node();
    int axis = n.As<ir::ConcatAttrs>().axis;
    std::vector<NodeId> pieces;
    bool changed = false;
    const std::vector<NodeId> inputs = n.inputs;
    Builder b = Make();
    for (NodeId in : inputs) {
      if (g->node(in).shape.elements() == 0) {
        changed = true;
        continue;
      }
      NodeId joined = pieces.empty() ? kNoNode : Joined(&b, pieces.back(), in, axis);
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

  NodeId Joined(Builder* b, NodeId first, NodeId second, int axis) const {
    if (g->node(first).op != Op::kView || g->node(second).op != Op::kView) return kNoNode;
    NodeId base = g->BaseOf(first);
    ir::View a = g->ViewOf(first), c = g->ViewOf(second);
    if (base != g->BaseOf(second) || !a.affine() || !c.affine()) return kNoNode;
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
    return b->ViewNode(base, both);
  }

  // The elements named by constant indices, as a view, if they are evenly spaced.
  std::optional<ir::View> ConstantElements(const ir::IndexedAttrs& attrs, size_t first) const {
    const Shape& shape = attrs.map.shape();
    constexpr int64_t kMostElements = 1 << 18;
    if (shape.elements() == 0 || shape.elements() > kMostElements || shape.rank == 0) return std::nullopt;
    std::vector<int64_t> at = ir::ResolveAll(attrs.map);
    Builder b = Make();
    for (size_t k = 0; k < attrs.dims.size(); ++k) {
      std::vector<int64_t> index;
      if (!b.ConstantInts(node().inputs[first + k], &index)) return std::nullopt;
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

  NodeId Read() const {
    std::vector<NodeId> in = node().inputs;
    if (std::optional<ir::View> view = ConstantElements(node().As<ir::IndexedAttrs>(), 1)) {
      return Make().ViewNode(in[0], *view);
    }
    // Reads of a view become reads of its storage.
    ir::IndexedAttrs attrs = node().As<ir::IndexedAttrs>();
    if (g->node(in[0]).op != Op::kView || !ir::Rebase(g->ViewOf(in[0]), &attrs)) return kNoNode;
    const std::vector<NodeId> index(in.begin() + 1, in.end());
    return Make().IndexedRead(g->BaseOf(in[0]), index, attrs, node().shape);
  }

  NodeId Write() const {
    const ir::IndexedAttrs attrs = node().As<ir::IndexedAttrs>();
    const std::vector<NodeId> in = node().inputs;
    if (attrs.combine != ir::ScatterCombine::kNone) return kNoNode;
    if (attrs.dims.empty()) {
      bool whole = ir::IsDense(attrs.map, node().shape.elements());
      return whole ? Make().Reshape(in[1], node().shape) : kNoNode;
    }
    std::optional<ir::View> view = ConstantElements(attrs, 2);
    if (!view || !IsInjective(*view)) return kNoNode;
    ir::IndexedAttrs fixed;
    fixed.map = *view;
    fixed.may_collide = false;
    return Make().IndexedWrite(in[0], in[1], {}, fixed);
  }

  NodeId Apply() const {
    switch (node().op) {
      case Op::kPointwise: return Arithmetic();
      case Op::kReduce: return Reduction();
      case Op::kConcat: return Concatenation();
      case Op::kIndexedRead: return Read();
      case Op::kIndexedWrite: return Write();
      default: return kNoNode;
    }
  }
};

}  // namespace

Result<PassResult> Simplify(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  constexpr int kMaxRounds = 8;
  for (int round = 0; round < kMaxRounds; ++round) {
    int64_t before = result.changes;
    const ir::Users users = graph->AllUsers();
    for (NodeId id : graph->TopologicalOrder()) {
      if (graph->node(id).dead || id >= static_cast<NodeId>(users.size())) continue;
      NodeId instead = Rules{graph, id, &users}.Apply();
      if (instead == kNoNode || instead == id || !graph->CanReplace(id, instead)) continue;
      graph->Replace(id, instead);
      ++result.changes;
    }
    Tidy(graph);
    if (result.changes == before) break;
  }
  result.text = Count(result.changes, "node") + " simplified";
  return result;
}

}  // namespace rondo::passes
