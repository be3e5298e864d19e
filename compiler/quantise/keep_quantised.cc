// Keeps quantised values quantised. Numbers that are dequantised and quantised again in the same way are the
// original numbers, bit for bit; the maximum of dequantised numbers, or their concatenation, is the
// dequantised maximum or concatenation of the numbers.
#include <algorithm>
#include <cmath>

#include "compiler/passes/rewrite.h"
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

// The range of the integers that are the elements of `id`, a float tensor; no value if they may be
// non-integers or NaN.
std::optional<Range> WholeRange(const Graph& g, NodeId id, int steps = 0) {
  const Node& node = g.node(g.BaseOf(id));
  if (node.op != Op::kPointwise || node.dtype != DType::kF32 || steps > kMostSteps) return std::nullopt;
  const TapeOp op = node.As<ir::PointwiseAttrs>().op;
  if (op == TapeOp::kRound) return Range();
  if (op == TapeOp::kCast) {
    const DType from = g.node(node.inputs[0]).dtype;
    if (!Is8BitInteger(from)) return std::nullopt;
    return from == DType::kU8 ? Range{0, 255} : Range{-128, 127};
  }
  if (op != TapeOp::kAdd && op != TapeOp::kSub && op != TapeOp::kMax && op != TapeOp::kMin)
    return std::nullopt;
  const bool first = op != TapeOp::kSub && UniformValue(g, node.inputs[0]);  // the number
  const std::optional<double> v = UniformValue(g, node.inputs[first ? 0 : 1]);
  if (!v || !IsWhole(*v)) return std::nullopt;
  const std::optional<Range> of = WholeRange(g, node.inputs[first ? 1 : 0], steps + 1);
  if (!of) return std::nullopt;
  switch (op) {
    case TapeOp::kAdd: return Range{of->low + *v, of->high + *v};
    case TapeOp::kSub: return Range{of->low - *v, of->high - *v};
    case TapeOp::kMax: return Range{std::max(of->low, *v), std::max(of->high, *v)};
    default: return Range{std::min(of->low, *v), std::min(of->high, *v)};
  }
}

// Whether x is of integers in f32, none of them large.
bool IsSmallAndWhole(Match& m) {
  const std::optional<Range> range = WholeRange(m.graph(), m[pattern::x]);
  return range && range->small() && m.node().dtype == DType::kF32;
}

std::optional<Dequantised> Dequantise(Builder& b, NodeId id) {
  const Graph& g = b.graph();
  const std::optional<Quantised> q = QuantisedOf(b, id);
  if (!q || q->type != DType::kF32 || !Is8BitInteger(g.node(q->codes).dtype)) return std::nullopt;
  const std::optional<double> zero = q->zero == kNoNode ? 0 : UniformValue(g, q->zero),
                              scale = q->scale == kNoNode ? 1 : UniformValue(g, q->scale);
  if (!zero || !scale || !IsWhole(*zero) || !(*scale > 0) || !std::isfinite(*scale)) return std::nullopt;
  return Dequantised{q->codes, *zero, *scale};
}

NodeId Scaled(Builder& b, NodeId numbers, const Dequantised& as) {
  NodeId x = b.Cast(numbers, DType::kF32);
  if (as.zero != 0) x = b.BinaryScalar(TapeOp::kSub, x, as.zero);
  return as.scale == 1 ? x : b.BinaryScalar(TapeOp::kMul, x, as.scale);
}

// The maximum of a window: scales are positive, and rounding is monotonic. No window is empty.
NodeId Greatest(Match& m) {
  const ir::PoolAttrs& attrs = m.node().As<ir::PoolAttrs>();
  if (attrs.kind != Combine::kMax) return kNoNode;
  for (size_t a = 0; a < attrs.kernel.size(); ++a) {
    const int64_t reach = (attrs.kernel[a] - 1) * attrs.dilations[a];
    if (attrs.pads_begin[a] > reach || attrs.pads_end[a] > reach) return kNoNode;
  }
  Builder b = m.Make();
  const std::optional<Dequantised> of = Dequantise(b, m.node().inputs[0]);
  return of ? Scaled(b, b.Pool(of->numbers, attrs), *of) : kNoNode;
}

NodeId Together(Match& m) {
  Builder b = m.Make();
  std::vector<NodeId> numbers;
  std::optional<Dequantised> first;
  for (NodeId piece : m.node().inputs) {
    const std::optional<Dequantised> own = Dequantise(b, piece);
    if (!own || (first && !own->SameForm(*first, m.graph()))) return kNoNode;
    if (!first) first = own;
    numbers.push_back(own->numbers);
  }
  return first ? Scaled(b, b.Concat(numbers, m.node().As<ir::ConcatAttrs>().axis), *first) : kNoNode;
}

// The maximum or minimum over a whole tensor, which is imported as line by line first (for images along the
// third axis): on the host in one step, split over threads.
NodeId AtOnce(Match& m) {
  const Graph& g = m.graph();
  const Node& node = m.node();
  const ir::ReduceAttrs& attrs = node.As<ir::ReduceAttrs>();
  const bool extreme = attrs.kind == ir::ReduceKind::kMax || attrs.kind == ir::ReduceKind::kMin;
  const Node& along = g.node(g.BaseOf(node.inputs[0]));
  if (!extreme || node.shape.elements() != 1 || along.op != Op::kReduce || along.shape.rank < 2 ||
      g.node(node.inputs[0]).shape.elements() != along.shape.elements())
    return kNoNode;
  const ir::ReduceAttrs& before = along.As<ir::ReduceAttrs>();
  const int line = along.shape.rank >= 4 ? 2 : along.shape.rank - 1;
  if (before.kind != attrs.kind || before.axes != std::vector<int>{line}) return kNoNode;
  std::vector<int> all;
  for (int d = 0; d < along.shape.rank; ++d) all.push_back(d);
  Builder b = m.Make();
  return b.Reshape(b.Reduce(attrs.kind, along.inputs[0], all, true), node.shape);
}

std::vector<Rewrite> Rules(const TargetTraits& target) {
  using namespace pattern;
  std::vector<Rewrite> rules = {
      // The error of the quotient is below 2^-6.
      {Round(((x * a).Shown() / a).Shown()), x,
       [](Match& m) { return m[a] >= 0x1p-64 && m[a] <= 0x1p64 && IsSmallAndWhole(m); }},
      {(x - a).Shown() + a, x, [](Match& m) { return IsWhole(m[a]) && IsSmallAndWhole(m); }},
      {Max(x, a), x,
       [](Match& m) {
         const std::optional<Range> range = WholeRange(m.graph(), m[x]);
         return range && m[a] <= range->low;
       }},
      {Min(x, a), x,
       [](Match& m) {
         const std::optional<Range> range = WholeRange(m.graph(), m[x]);
         return range && m[a] >= range->high;
       }},
      // A cast back to the type before widening.
      {Cast(Cast(x).As(y).Shown()), x,
       [](Match& m) {
         const DType type = m.node().dtype;
         return Is8BitInteger(type) && m.dtype(y) == DType::kF32 && m.dtype(x) == type;
       }},
      {Op::kPool, Greatest},
      {Op::kConcat, Together},
  };
  if (target.widens_as_it_reads) rules.push_back({Op::kReduce, AtOnce});
  return rules;
}

}  // namespace

Result<PassResult> KeepQuantised(ir::Graph* graph, const PassOptions& options) {
  PassResult result;
  result.changes = Total(ToFixedPoint(graph, Rules(options.target)));
  result.text = Count(result.changes, "node") + " of what is quantised already";
  return result;
}

}  // namespace rondo::passes
