// Keeps quantised values quantised. Numbers that are dequantised and quantised again in the same way are the
// original numbers, bit for bit; the maximum of dequantised numbers, or their concatenation, is the
// dequantised maximum or concatenation of the numbers.
#include <algorithm>
#include <cmath>

#include "compiler/quantise/quantise.h"
#include "compiler/quantise/quantised.h"

namespace rondo::passes {

namespace {

constexpr int kMostSteps = 12;

bool IsWhole(double value) { return value == std::trunc(value) && std::abs(value) <= 1 << 16; }

struct Range {
  double low = -HUGE_VAL, high = HUGE_VAL;
  bool small() const { return low >= -(1 << 16) && high <= 1 << 16; }
};

// (numbers - zero) * scale, in f32.
struct Dequantised {
  NodeId numbers = kNoNode;  // 8-bit integers
  double zero = 0, scale = 1;
  bool SameForm(const Dequantised& other, const Graph& g) const {
    return zero == other.zero && scale == other.scale && g.node(numbers).dtype == g.node(other.numbers).dtype;
  }
};

// One node and its possible replacement. Each rule returns the replacement, or kNoNode.
class Rules {
 public:
  Rules(Graph* graph, NodeId id, bool at_once)
      : g_(*graph), b_(BuilderLike(graph, id)), id_(id), at_once_(at_once) {}

  NodeId Apply() {
    const Op op = g_.node(id_).op;
    if (op == Op::kPool) return Greatest();
    if (op == Op::kConcat) return Together();
    if (op == Op::kReduce && at_once_) return AtOnce();
    if (op != Op::kPointwise) return kNoNode;
    switch (g_.node(id_).As<ir::PointwiseAttrs>().op) {
      case TapeOp::kRound: return Rounded();
      case TapeOp::kAdd: return ZeroAgain();
      case TapeOp::kMax:
      case TapeOp::kMin: return Clamped();
      case TapeOp::kCast: return Narrowed();
      default: return kNoNode;
    }
  }

 private:
  // `x`, which has the shape of the base of `shown`, in the view of `shown`.
  NodeId Like(NodeId shown, NodeId x) {
    return g_.BaseOf(shown) == shown ? x
                                     : b_.ViewNode(g_.BaseOf(x), ir::Compose(g_.ViewOf(x), g_.ViewOf(shown)));
  }

  // `id` as `op` of a node and a number that is the same for all elements; the number must be second, unless
  // `op` is commutative.
  std::optional<ScalarUse> With(NodeId id, TapeOp op) const {
    const Node* node = AsPointwise(g_, g_.BaseOf(id), op);
    if (node == nullptr || node->dtype != DType::kF32) return std::nullopt;
    if (op != TapeOp::kSub && op != TapeOp::kDiv) return WithScalar(g_, node->id, op);
    const std::optional<double> value = UniformValue(g_, node->inputs[1]);
    return value ? std::optional<ScalarUse>({node->inputs[0], *value}) : std::nullopt;
  }

  // The range of the integers that are the elements of `id`, a float tensor; no value if they may be
  // non-integers or NaN.
  std::optional<Range> WholeRange(NodeId id, int steps = 0) const {
    const NodeId base = g_.BaseOf(id);
    const Node& node = g_.node(base);
    if (node.op != Op::kPointwise || node.dtype != DType::kF32 || steps > kMostSteps) return std::nullopt;
    const TapeOp op = node.As<ir::PointwiseAttrs>().op;
    if (op == TapeOp::kRound) return Range();
    if (op == TapeOp::kCast) {
      const DType from = g_.node(node.inputs[0]).dtype;
      if (!Is8BitInteger(from)) return std::nullopt;
      return from == DType::kU8 ? Range{0, 255} : Range{-128, 127};
    }
    if (op != TapeOp::kAdd && op != TapeOp::kSub && op != TapeOp::kMax && op != TapeOp::kMin)
      return std::nullopt;
    const std::optional<ScalarUse> use = With(base, op);
    if (!use || !IsWhole(use->value)) return std::nullopt;
    std::optional<Range> range = WholeRange(use->x, steps + 1);
    if (!range) return std::nullopt;
    const double v = use->value;
    switch (op) {
      case TapeOp::kAdd: return Range{range->low + v, range->high + v};
      case TapeOp::kSub: return Range{range->low - v, range->high - v};
      case TapeOp::kMax: return Range{std::max(range->low, v), std::max(range->high, v)};
      default: return Range{std::min(range->low, v), std::min(range->high, v)};
    }
  }

  // round(n * s / s): the error of the quotient is below 2^-6.
  NodeId Rounded() {
    const NodeId quotient = g_.node(id_).inputs[0];
    const std::optional<ScalarUse> div = With(quotient, TapeOp::kDiv);
    if (!div) return kNoNode;
    const std::optional<ScalarUse> mul = With(div->x, TapeOp::kMul);
    constexpr double kLeast = 0x1p-64, kMost = 0x1p64;
    if (!mul || mul->value != div->value || mul->value < kLeast || mul->value > kMost) return kNoNode;
    const std::optional<Range> range = WholeRange(mul->x);
    return range && range->small() ? Like(quotient, Like(div->x, mul->x)) : kNoNode;
  }

  // n - z + z
  NodeId ZeroAgain() {
    const std::optional<ScalarUse> add = With(id_, TapeOp::kAdd);
    if (!add) return kNoNode;
    const std::optional<ScalarUse> sub = With(add->x, TapeOp::kSub);
    if (!sub || sub->value != add->value || !IsWhole(sub->value)) return kNoNode;
    const std::optional<Range> range = WholeRange(sub->x);
    return range && range->small() ? Like(add->x, sub->x) : kNoNode;
  }

  NodeId Clamped() {
    const TapeOp op = g_.node(id_).As<ir::PointwiseAttrs>().op;
    const std::optional<ScalarUse> use = With(id_, op);
    const std::optional<Range> range = use ? WholeRange(use->x) : std::nullopt;
    if (!range) return kNoNode;
    return (op == TapeOp::kMax ? use->value <= range->low : use->value >= range->high) ? use->x : kNoNode;
  }

  // A cast back to the type before widening.
  NodeId Narrowed() {
    const Node& node = g_.node(id_);
    const NodeId wide = node.inputs[0];
    const Node* cast = AsPointwise(g_, g_.BaseOf(wide), TapeOp::kCast);
    if (!Is8BitInteger(node.dtype) || cast == nullptr || cast->dtype != DType::kF32) return kNoNode;
    return g_.node(cast->inputs[0]).dtype == node.dtype ? Like(wide, cast->inputs[0]) : kNoNode;
  }

  std::optional<Dequantised> Dequantise(NodeId id) {
    const std::optional<Quantised> q = QuantisedOf(b_, id);
    if (!q || q->type != DType::kF32 || !Is8BitInteger(g_.node(q->codes).dtype)) return std::nullopt;
    const std::optional<double> zero = q->zero == kNoNode ? 0 : UniformValue(g_, q->zero),
                                scale = q->scale == kNoNode ? 1 : UniformValue(g_, q->scale);
    if (!zero || !scale || !IsWhole(*zero) || !(*scale > 0) || !std::isfinite(*scale)) return std::nullopt;
    return Dequantised{q->codes, *zero, *scale};
  }
  NodeId Scaled(NodeId numbers, const Dequantised& as) {
    NodeId x = b_.Cast(numbers, DType::kF32);
    if (as.zero != 0) x = b_.BinaryScalar(TapeOp::kSub, x, as.zero);
    return as.scale == 1 ? x : b_.BinaryScalar(TapeOp::kMul, x, as.scale);
  }

  // The maximum of a window: scales are positive, and rounding is monotonic. No window is empty.
  NodeId Greatest() {
    const Node& node = g_.node(id_);
    const ir::PoolAttrs attrs = node.As<ir::PoolAttrs>();
    if (attrs.kind != Combine::kMax) return kNoNode;
    for (size_t a = 0; a < attrs.kernel.size(); ++a) {
      const int64_t reach = (attrs.kernel[a] - 1) * attrs.dilations[a];
      if (attrs.pads_begin[a] > reach || attrs.pads_end[a] > reach) return kNoNode;
    }
    const std::optional<Dequantised> of = Dequantise(node.inputs[0]);
    return of ? Scaled(b_.Pool(of->numbers, attrs), *of) : kNoNode;
  }

  NodeId Together() {
    const std::vector<NodeId> pieces = g_.node(id_).inputs;
    const int axis = g_.node(id_).As<ir::ConcatAttrs>().axis;
    std::vector<NodeId> numbers;
    std::optional<Dequantised> first;
    for (NodeId piece : pieces) {
      const std::optional<Dequantised> own = Dequantise(piece);
      if (!own || (first && !own->SameForm(*first, g_))) return kNoNode;
      if (!first) first = own;
      numbers.push_back(own->numbers);
    }
    return first ? Scaled(b_.Concat(numbers, axis), *first) : kNoNode;
  }

  // The maximum or minimum over a whole tensor, which is imported as line by line first (for images along the
  // third axis): on the host in one step, split over threads.
  NodeId AtOnce() {
    const Node& node = g_.node(id_);
    const ir::ReduceAttrs attrs = node.As<ir::ReduceAttrs>();
    const bool extreme = attrs.kind == ir::ReduceKind::kMax || attrs.kind == ir::ReduceKind::kMin;
    const NodeId first = g_.BaseOf(node.inputs[0]);
    const Node& along = g_.node(first);
    if (!extreme || node.shape.elements() != 1 || along.op != Op::kReduce || along.shape.rank < 2 ||
        g_.node(node.inputs[0]).shape.elements() != along.shape.elements())
      return kNoNode;
    const ir::ReduceAttrs before = along.As<ir::ReduceAttrs>();
    const int line = along.shape.rank >= 4 ? 2 : along.shape.rank - 1;
    if (before.kind != attrs.kind || before.axes != std::vector<int>{line}) return kNoNode;
    std::vector<int> all;
    for (int d = 0; d < along.shape.rank; ++d) all.push_back(d);
    return b_.Reshape(b_.Reduce(attrs.kind, along.inputs[0], all, true), node.shape);
  }

  Graph& g_;
  Builder b_;
  NodeId id_;
  const bool at_once_;
};

}  // namespace

Result<PassResult> KeepQuantised(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  constexpr int kMaxRounds = 4;  // one replacement may enable another
  for (int64_t round = 0, before = -1; round < kMaxRounds && result.changes != before; ++round) {
    before = result.changes;
    for (NodeId id : graph->TopologicalOrder()) {
      if (graph->node(id).dead) continue;
      const NodeId made = graph->size();
      const NodeId instead = Rules(graph, id, options.target.widens_as_it_reads).Apply();
      const bool replaces = instead != kNoNode && instead != id && graph->CanReplace(id, instead);
      if (replaces) graph->Replace(id, instead);
      result.changes += replaces;
      std::vector<NodeId> unused;
      for (NodeId n = made; n < graph->size(); ++n) unused.push_back(n);
      graph->RemoveUnused(std::move(unused));
    }
    Tidy(graph);
  }
  result.text = Count(result.changes, "node") + " of what is quantised already";
  return result;
}

}  // namespace rondo::passes
