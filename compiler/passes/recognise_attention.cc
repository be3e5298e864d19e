#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/passes/passes.h"
#include "compiler/passes/pattern.h"
#include "compiler/passes/score_masks.h"

namespace rondo::passes {

namespace {

// The nodes between the two matmuls.
struct Softmax {
  NodeId scores = kNoNode;
  NodeId sink = kNoNode;  // a score of each row without a value, with the rows' shape, or broadcast
  bool nan_to_zero = false;
};
// A factor known at run time only, by which all scores are multiplied or divided.
struct Factor {
  NodeId number = kNoNode;  // of one element
  bool divides = false;
};
struct Scores {
  NodeId product = kNoNode;    // the MatMul of q and k
  std::vector<Masking> masks;  // the model's last one first
  double scale = 1;
  double softcap = 0;
  std::vector<Factor> factors;  // further factors of the matmul
};

// x * c, or x / c as a product with 1 / c.
std::optional<ScalarUse> WithFactor(const Graph& g, NodeId id) {
  if (const std::optional<ScalarUse> mul = WithScalar(g, id, TapeOp::kMul)) return mul;
  const Node* div = AsPointwise(g, id, TapeOp::kDiv);
  const std::optional<double> by = div == nullptr ? std::nullopt : UniformValue(g, div->inputs[1]);
  if (!by || !std::isfinite(1 / *by)) return std::nullopt;
  return ScalarUse{div->inputs[0], 1 / *by};
}

bool IsOfRows(const Graph&, const Node& reduction) {
  return reduction.As<ir::ReduceAttrs>().axes == std::vector<int>{reduction.shape.rank - 1};
}

// x - max(x), by rows
pattern::Pattern Shifted() {
  using namespace pattern;
  return x - Pattern(ir::ReduceKind::kMax, x).If(IsOfRows).Shown();
}

// y / sum(y), by rows, where y is exp(x - max(x)) or exp(x)
pattern::Pattern SoftmaxOfRows() {
  using namespace pattern;
  const Pattern e = Exp(Shifted()).As(y) | Exp(x).As(y), sum = Sum(y).If(IsOfRows).Shown();
  return e / sum | e * Reciprocal(sum).Shown();
}

class Matcher {
 public:
  explicit Matcher(Graph* graph) : g_(graph), match_(graph, SkipCasts) {}

  // The attention that ends in the matmul `values_product`, or kNoNode.
  NodeId Rewrite(NodeId values_product) {
    const Shape out = g_->node(values_product).shape;
    NodeId probabilities = Descend(g_->node(values_product).inputs[0]);
    if (probabilities == kNoNode) return kNoNode;
    std::optional<Softmax> softmax = MatchSoftmax(probabilities);
    if (!softmax) return kNoNode;
    std::optional<Scores> scores = MatchScores(softmax->scores);
    if (!scores) return kNoNode;
    const Node& first = g_->node(scores->product);
    if (first.shape.rank < 2 || first.shape[first.shape.rank - 2] != out[out.rank - 2]) return kNoNode;
    if (!SeenByNoOther(scores->product, probabilities)) return kNoNode;
    return Build(values_product, *softmax, *scores);
  }

  // The attention without repeated heads and scalar factors of its keys and values; kNoNode if it has none.
  NodeId Unrepeat(NodeId attention) {
    const ir::AttentionInputs in = ir::AttentionInputsOf(g_->node(attention));
    ir::AttentionAttrs attrs = g_->node(attention).As<ir::AttentionAttrs>();
    double scale = 1;
    NodeId q = Unscaled(in.q, &scale), k = Unscaled(in.k, &scale), v = in.v;
    const Heads h = DivideHeads(k, k, v);
    if (h.repeats == 1 && q == in.q && k == in.k) return kNoNode;
    Builder b = BuilderLike(g_, attention);
    const Shape ks = b.shape(k), vs = b.shape(v);
    k = OneOfRepeats(&b, k, h, ks[2], ks[3]);
    v = OneOfRepeats(&b, v, h, vs[2], vs[3]);
    attrs.scale *= static_cast<float>(scale);
    return b.Attention(q, k, v, in.mask, in.limit, attrs, in.sink);
  }

 private:
  // True if nothing outside reads what is computed from `product` on the way to the matmuls of
  // `probabilities` and values (several if heads have more than one kind of values): all readers in between
  // are only read by one another and by those.
  bool SeenByNoOther(NodeId product, NodeId probabilities) const {
    constexpr size_t kMostBetween = 1024;
    std::set<NodeId> between = {product};
    std::vector<NodeId> work = {product};
    while (!work.empty()) {
      const NodeId id = work.back();
      work.pop_back();
      const std::vector<NodeId> users = g_->UsersOf(id);
      if (users.empty() || g_->IsOutput(id) || between.size() > kMostBetween) return false;
      for (NodeId user : users) {
        const Node& n = g_->node(user);
        const bool last = user != product && n.op == Op::kMatMul && Descend(n.inputs[0]) == probabilities;
        if (!last && between.insert(user).second) work.push_back(user);
      }
    }
    return true;
  }

  // Skips reshapes that keep the last dim, and casts between floats.
  NodeId Descend(NodeId id) const {
    for (;;) {
      const Node& n = g_->node(id);
      NodeId next = kNoNode;
      if (n.op == Op::kView && IsReshape(*g_, id)) {
        const Shape& below = g_->node(n.inputs[0]).shape;
        if (below.rank == 0 || n.shape.rank == 0 || below[below.rank - 1] != n.shape[n.shape.rank - 1])
          return kNoNode;
        next = n.inputs[0];
      } else if (IsCastOfFloats(*g_, id)) {
        next = n.inputs[0];
      } else {
        return id;
      }
      id = next;
    }
  }

  std::optional<Softmax> MatchSoftmax(NodeId id) {
    using namespace pattern;
    Softmax out;
    if (match_.At(Select(IsNan(z), 0, z), id)) {
      out.nan_to_zero = true;
      id = SkipCasts(*g_, match_[z]);
    }
    if (g_->node(id).op == Op::kView) {
      std::optional<Softmax> cut = MatchSoftmaxWithSink(id);
      if (cut) cut->nan_to_zero = out.nan_to_zero;
      return cut;
    }
    if (!match_.At(softmax_, id)) return std::nullopt;
    out.scores = match_[x];
    return out;
  }

  // Whether a view shows the first elements of a tensor along each dim, in order.
  static bool ShowsFirst(const ir::View& view, const Shape& whole) {
    if (!view.affine() || view.steps[0].offset != 0) return false;
    const ir::ViewStep &step = view.steps[0], dense = ir::DenseView(whole).steps[0];
    for (int d = 0; d < step.shape.rank; ++d) {
      if (step.shape[d] > 1 && step.strides[d] != dense.strides[d]) return false;
    }
    return true;
  }

  // For a view of all of a softmax but its last column, where the last score is a sink.
  std::optional<Softmax> MatchSoftmaxWithSink(NodeId shown) {
    const Shape shape = g_->node(shown).shape;
    const NodeId all = g_->node(shown).inputs[0];
    Shape whole = shape;
    if (shape.rank == 0 || g_->node(all).shape.rank != shape.rank) return std::nullopt;
    const int last = shape.rank - 1;
    ++whole[last];
    if (!(g_->node(all).shape == whole) || !ShowsFirst(g_->ViewOf(shown), whole)) return std::nullopt;
    std::optional<Softmax> out = MatchSoftmax(SkipCasts(*g_, all));
    if (!out) return std::nullopt;
    // Exporters subtract the maximum before a softmax that does so itself.
    NodeId scores = SkipCasts(*g_, out->scores);
    if (match_.At(shifted_, scores)) scores = SkipCasts(*g_, match_[pattern::x]);
    const Node& both = g_->node(scores);
    if (both.op != Op::kConcat || both.inputs.size() != 2 || both.As<ir::ConcatAttrs>().axis != last ||
        !(g_->node(both.inputs[0]).shape == shape))
      return std::nullopt;
    out->scores = both.inputs[0];
    out->sink = both.inputs[1];
    return out;
  }

  // From the softmax's input down to the matmul: masks with scales in between, then a soft cap, then scales.
  std::optional<Scores> MatchScores(NodeId id) {
    Scores out;
    constexpr int kMostSteps = 32;
    for (int step = 0; step < kMostSteps; ++step) {
      const Node& n = g_->node(id);
      if (n.op == Op::kMatMul) {
        if (IsFp8(g_->node(n.inputs[0]).dtype)) return std::nullopt;  // its sums are scaled
        out.product = id;
        return out;
      }
      NodeId below = Descend(id);
      if (below == kNoNode) return std::nullopt;
      if (below != id) {
        id = below;
        continue;
      }
      NodeId next = kNoNode;
      if (std::optional<ScalarUse> factor = WithFactor(*g_, id)) {
        next = Multiplied(factor->x, factor->value, &out);
      } else if (FactorOf(id) >= 0) {
        next = TakeFactor(id, &out);
      } else if (std::optional<ScalarUse> max = WithScalar(*g_, id, TapeOp::kMax);
                 max && Absorbs(max->value * out.scale) && out.softcap == 0 && out.factors.empty()) {
        out.masks.push_back({kNoNode, false, ScaledMask(max->value, out.scale)});
        next = max->x;
      } else if (out.scale > 0 && out.softcap == 0 && out.factors.empty()) {
        next = Masked(id, &out);
      }
      if (next == kNoNode) return std::nullopt;
      id = next;
    }
    return std::nullopt;
  }

  // If `id` multiplies or divides something by a single number that is not constant, the index of that input;
  // otherwise -1.
  int FactorOf(NodeId id) const {
    const Node* by = AsPointwise(*g_, id, TapeOp::kMul);
    const bool divides = by == nullptr;
    if (divides) by = AsPointwise(*g_, id, TapeOp::kDiv);
    if (by == nullptr) return -1;
    for (int i = 1; i >= (divides ? 1 : 0); --i) {
      const NodeId base = g_->BaseOf(by->inputs[static_cast<size_t>(i)]);
      const NodeId other = g_->BaseOf(by->inputs[static_cast<size_t>(1 - i)]);
      const bool one = g_->node(base).shape.elements() == 1 && !g_->IsConstant(base);
      if (one && g_->node(other).shape.elements() > 1) return i;
    }
    return -1;
  }
  NodeId TakeFactor(NodeId id, Scores* out) const {
    const int at = FactorOf(id);
    const std::vector<NodeId>& in = g_->node(id).inputs;
    out->factors.push_back(
        {g_->BaseOf(in[static_cast<size_t>(at)]), AsPointwise(*g_, id, TapeOp::kDiv) != nullptr});
    return in[static_cast<size_t>(1 - at)];
  }

  // x * c: a scale, or the outer factor of c * tanh(y / c).
  NodeId Multiplied(NodeId x, double c, Scores* out) const {
    NodeId below = Descend(x);
    const Node* tanh = below == kNoNode ? nullptr : AsPointwise(*g_, below, TapeOp::kTanh);
    if (tanh == nullptr) {
      out->scale *= c;
      return x;
    }
    if (out->softcap != 0 || out->scale != 1 || !out->factors.empty()) return kNoNode;
    const std::optional<ScalarUse> inside = WithFactor(*g_, tanh->inputs[0]);
    if (!inside || !std::isfinite(inside->value)) return kNoNode;
    // c * tanh(f * y) = c * tanh((f * c * y) / c): the part of f beyond 1 / c is a scale.
    out->softcap = c;
    out->scale = inside->value * c;
    if (std::abs(out->scale - 1) < 1e-6) out->scale = 1;
    return inside->x;
  }

  bool LeadsToMatmul(NodeId id) const {
    constexpr int kMostSteps = 32;
    for (int step = 0; step < kMostSteps; ++step) {
      id = Descend(id);
      if (id == kNoNode) return false;
      const Node& n = g_->node(id);
      if (n.op == Op::kMatMul) return true;
      if (n.op != Op::kPointwise || n.inputs.empty()) return false;
      TapeOp op = n.As<ir::PointwiseAttrs>().op;
      if (op == TapeOp::kTanh) {
        id = n.inputs[0];
      } else if (std::optional<ScalarUse> factor = WithFactor(*g_, id)) {
        id = factor->x;
      } else if (std::optional<ScalarUse> max = WithScalar(*g_, id, TapeOp::kMax)) {
        id = max->x;
      } else if (const int at = FactorOf(id); at >= 0) {
        id = n.inputs[static_cast<size_t>(1 - at)];
      } else if (op == TapeOp::kAdd) {
        return LeadsToMatmul(n.inputs[0]) || LeadsToMatmul(n.inputs[1]);
      } else if (op == TapeOp::kSelect) {
        return LeadsToMatmul(n.inputs[1]) || LeadsToMatmul(n.inputs[2]);
      } else {
        return false;
      }
    }
    return false;
  }

  // x + mask or where(mask, x, dropped): records the mask and returns x.
  NodeId Masked(NodeId id, Scores* out) {
    const Node& n = g_->node(id);
    if (n.op != Op::kPointwise) return kNoNode;
    const std::vector<NodeId> in = n.inputs;
    TapeOp op = n.As<ir::PointwiseAttrs>().op;
    if (op == TapeOp::kAdd) {
      size_t x = LeadsToMatmul(in[0]) ? 0 : 1;
      NodeId mask = in[1 - x];
      if (out->scale != 1) {  // of later operations
        Builder b = BuilderLike(g_, id);
        mask = b.ViewNode(b.BinaryScalar(TapeOp::kMul, g_->BaseOf(mask), out->scale),
                          ir::View(g_->ViewOf(mask)));
      }
      out->masks.push_back({mask, true, 0});
      return in[x];
    }
    if (op != TapeOp::kSelect) return kNoNode;
    for (size_t x : {1, 2}) {
      const std::optional<Masking> replaced = ReplacedScores(g_, id, x, out->masks, out->scale);
      if (!replaced) continue;
      out->masks.push_back(*replaced);
      return in[x];
    }
    return kNoNode;
  }

  // Follows scalar factors through views: returns the remaining node, and their product.
  NodeId Unscaled(NodeId id, double* scale) {
    for (;;) {
      const NodeId base = g_->BaseOf(id);
      const std::optional<ScalarUse> factor = WithFactor(*g_, base);
      if (!factor) return id;
      *scale *= factor->value;
      id = BuilderLike(g_, base).ViewNode(factor->x, ir::View(g_->ViewOf(id)));
    }
  }

  // The division of the matmuls' batch dims: batches b, key heads g, and query heads for each of them.
  struct Heads {
    int64_t batch = 1, groups = 1, repeats = 1;
  };

  // Loops over the batch dims of q, k and v for which all three have plain strides, and the strides.
  Heads DivideHeads(NodeId q, NodeId k, NodeId v) const {
    const Shape& shape = g_->node(q).shape;
    int dims = shape.rank - 2;
    Heads heads;
    heads.batch = dims > 1 ? shape[0] : 1;
    Shape batch;  // the dims of heads (after the batch, if that is not a dim of its own)
    batch.rank = 0;
    for (int d = dims > 1 ? 1 : 0; d < dims; ++d) batch.dims[batch.rank++] = shape[d];
    ir::LoopNest nest(batch);
    std::vector<ir::View> views;
    for (NodeId id : {q, k, v}) {
      ir::View view = g_->ViewOf(id);
      for (int d = g_->node(id).shape.rank - 1; d >= 0; --d) {
        bool head = d < dims && d >= dims - batch.rank;
        if (!head) view = Dropped(view, d);
      }
      views.push_back(view);
    }
    bool plain = true;
    for (int round = 0; round < 3; ++round) {
      for (const ir::View& view : views) plain = plain && ir::RefineLoops(view, &nest);
    }
    std::vector<int64_t> extents = nest.extents();
    std::optional<ir::AffineMap> of_k, of_v;
    if (plain) of_k = ir::MapOver(views[1], nest);
    if (plain) of_v = ir::MapOver(views[2], nest);
    size_t last = extents.size();
    if (of_k && of_v) {
      while (last > 0 &&
             (extents[last - 1] == 1 || (of_k->strides[last - 1] == 0 && of_v->strides[last - 1] == 0))) {
        heads.repeats *= extents[--last];
      }
    }
    for (size_t l = 0; l < last; ++l) heads.groups *= extents[l];
    // [batch * heads, ...]: the outermost of several loops is the batch.
    if (dims == 1 && last > 1) {
      heads.batch = extents[0];
      heads.groups /= extents[0];
    }
    return heads;
  }

  static ir::View Dropped(const ir::View& view, int axis) {
    ir::View one = ir::Slice(view, axis, 0, 1, 1);
    Shape s = one.shape();
    for (int d = axis; d + 1 < s.rank; ++d) s[d] = s[d + 1];
    --s.rank;
    return ir::Reshape(one, s);
  }

  NodeId Build(NodeId id, const Softmax& softmax, const Scores& scores) {
    const std::vector<NodeId> first = g_->node(scores.product).inputs;
    double scale = scores.scale;
    NodeId q = Unscaled(first[0], &scale), k = Unscaled(first[1], &scale), v = g_->node(id).inputs[1];
    const Shape ps = g_->node(scores.product).shape, out_shape = g_->node(id).shape;
    int r = ps.rank;
    int64_t rows = ps[r - 2], keys = ps[r - 1], d = g_->node(q).shape[r - 1];
    int64_t e = out_shape[out_shape.rank - 1];
    Builder b = BuilderLike(g_, id);
    std::vector<std::string> sources = b.sources();
    for (NodeId part : {softmax.scores, scores.product}) ir::MergeSources(&sources, g_->node(part).sources);
    b.SetSources(sources);
    std::vector<int> swap;
    for (int i = 0; i < r; ++i) swap.push_back(i);
    std::swap(swap[static_cast<size_t>(r - 1)], swap[static_cast<size_t>(r - 2)]);
    k = b.Transpose(k, swap);
    if (!(BatchOf(g_->node(q).shape) == BatchOf(g_->node(v).shape))) {
      // The two matmuls may split their batch dims differently.
      Shape vs = BatchOf(ps);
      vs.dims[vs.rank++] = keys;
      vs.dims[vs.rank++] = e;
      v = b.Reshape(v, vs);
    }
    Heads h = DivideHeads(q, k, v);
    for (const Factor& factor : scores.factors) {
      const NodeId number = b.Cast(b.Reshape(factor.number, Shape{}), b.dtype(q));
      q = factor.divides ? b.Div(q, number) : b.Mul(q, number);
    }
    q = b.Reshape(q, Shape({h.batch, h.groups * h.repeats, rows, d}));
    k = OneOfRepeats(&b, k, h, keys, d);
    v = OneOfRepeats(&b, v, h, keys, e);
    NodeId mask = CombinedMask(g_, &b, scores.masks, Shape({h.batch, h.groups * h.repeats, rows, keys}));
    ir::AttentionAttrs attrs;
    attrs.scale = static_cast<float>(scale);
    attrs.softcap = static_cast<float>(scores.softcap);
    attrs.nan_to_zero = softmax.nan_to_zero;
    if (b.dtype(q) != b.dtype(k) || b.dtype(k) != b.dtype(v)) return kNoNode;
    NodeId sink = kNoNode;
    if (softmax.sink != kNoNode)
      sink = b.Reshape(b.Cast(softmax.sink, DType::kF32), Shape({h.batch, h.groups * h.repeats, rows}));
    NodeId out = b.Attention(q, k, v, mask, kNoNode, attrs, sink);
    return b.Cast(b.Reshape(out, out_shape), g_->node(id).dtype);
  }

  static Shape BatchOf(const Shape& s) {
    return Shape(Span<const int64_t>(s.dims, static_cast<size_t>(s.rank - 2)));
  }

  static NodeId OneOfRepeats(Builder* b, NodeId x, const Heads& h, int64_t rows, int64_t columns) {
    x = b->Reshape(x, Shape({h.batch, h.groups, h.repeats, rows, columns}));
    x = b->Slice(x, 2, 0, 1, 1);
    return b->Reshape(x, Shape({h.batch, h.groups, rows, columns}));
  }

  Graph* g_;
  Match match_;
  const pattern::Pattern softmax_ = SoftmaxOfRows(), shifted_ = Shifted();
};

}  // namespace

Result<PassResult> RecogniseAttention(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  int64_t unrepeated = 0;
  Matcher matcher(graph);
  for (NodeId id : graph->TopologicalOrder()) {
    const Op op = graph->node(id).op;
    if ((op != Op::kMatMul && op != Op::kAttention) || graph->node(id).dead) continue;
    std::vector<NodeId> unused = graph->node(id).inputs;
    const NodeId made = graph->size();
    NodeId instead = op == Op::kMatMul ? matcher.Rewrite(id) : matcher.Unrepeat(id);
    const bool replaces = instead != kNoNode && graph->CanReplace(id, instead);
    if (replaces) graph->Replace(id, instead);
    // Nodes used only by the old pieces, and unused new ones, must not count as readers.
    for (NodeId n = made; n < graph->size(); ++n) unused.push_back(n);
    graph->RemoveUnused(std::move(unused));
    if (!replaces) continue;
    ++(op == Op::kMatMul ? result.changes : unrepeated);
  }
  Tidy(graph);
  result.text = Count(result.changes, "attention") + " from pieces";
  if (unrepeated > 0)
    result.text += ", " + std::to_string(unrepeated) + " more without repeated heads or factors";
  result.changes += unrepeated;
  return result;
}

}  // namespace rondo::passes
