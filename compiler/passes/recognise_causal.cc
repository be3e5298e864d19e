#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "compiler/ir/walk.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/score_masks.h"
#include "core/scalar.h"

namespace rondo::passes {

namespace {

// A part of a mask, seen over [b, h, s, t]: `view` maps to the dense storage of `node`, which is not a view.
struct Seen {
  NodeId node = kNoNode;
  ir::View view;
};

// The meaning of a mask: it keeps keys [0, limit) (kNoNode: all) that `rest` keeps (kNoNode: all). Both are
// views that broadcast to [b, h, s] and [b, h, s, t].
struct Meaning {
  NodeId limit = kNoNode;
  NodeId rest = kNoNode;
  bool any = false;  // something was recognised
  // `beyond`: the value of keys from `limit` on: -inf, one value, or NaN if there are several.
  // `may_be_empty`: a row's limit may be 0 or less.
  double beyond = -std::numeric_limits<double>::infinity();
  bool may_be_empty = false;
};

class Reader {
 public:
  Reader(Graph* graph, NodeId attention) : g_(graph), b_(BuilderLike(graph, attention)) {}

  // The meaning of a mask node of shape [b, h, s, t].
  Meaning Read(NodeId mask) {
    Seen seen{g_->BaseOf(mask), g_->ViewOf(mask)};
    return IsFloat(g_->node(mask).dtype) ? ReadFloat(seen) : ReadBool(seen, true);
  }

  NodeId Least(NodeId a, NodeId b) { return Merge(TapeOp::kMin, a, b); }

 private:
  Seen Input(const Seen& s, size_t k) const {
    NodeId in = g_->node(s.node).inputs[k];
    return {g_->BaseOf(in), ir::Compose(g_->ViewOf(in), s.view)};
  }
  TapeOp OpOf(const Seen& s) const {
    const Node& n = g_->node(s.node);
    return n.op == Op::kPointwise ? n.As<ir::PointwiseAttrs>().op : TapeOp::kLoad;
  }
  NodeId AsNode(const Seen& s) { return b_.ViewNode(s.node, ShownOnce(s.view)); }
  std::optional<double> Uniform(const Seen& s) { return UniformValue(*g_, AsNode(s)); }
  Meaning Unknown(const Seen& s) { return {kNoNode, AsNode(s), false}; }

  NodeId Merge(TapeOp op, NodeId a, NodeId b) {
    if (a == kNoNode || b == kNoNode) return a == kNoNode ? b : a;
    return b_.Binary(op, a, b);
  }

  // A key must be kept by both. `join` combines the rests.
  Meaning Both(const Seen& s, const Meaning& x, const Meaning& y, TapeOp join) {
    if (!x.any && !y.any) return Unknown(s);
    Meaning both{Least(x.limit, y.limit), Merge(join, x.rest, y.rest), true};
    both.beyond = Beyond(x, y);
    both.may_be_empty = x.may_be_empty || y.may_be_empty;
    return both;
  }
  // Keys beyond both limits may get a larger value than those beyond one.
  static double Beyond(const Meaning& x, const Meaning& y) {
    if (x.limit == kNoNode || y.limit == kNoNode) return x.limit == kNoNode ? y.beyond : x.beyond;
    const bool infinite = std::isinf(x.beyond) && std::isinf(y.beyond);
    return infinite ? x.beyond : std::numeric_limits<double>::quiet_NaN();
  }

  // An additive mask.
  Meaning ReadFloat(const Seen& s) {
    if (++steps_ > kMostSteps) return Unknown(s);
    const Node& n = g_->node(s.node);
    if (n.op == Op::kConstant) return Constant(s, true);
    if (n.op == Op::kIndexedRead) return Table(s, true);
    switch (OpOf(s)) {
      case TapeOp::kCast:
        if (!IsFloat(g_->node(n.inputs[0]).dtype)) return Unknown(s);
        return ReadFloat(Input(s, 0));
      case TapeOp::kAdd: {
        Meaning x = ReadFloat(Input(s, 0)), y = ReadFloat(Input(s, 1));
        return SameType(x, y) ? Both(s, x, y, TapeOp::kAdd) : Unknown(s);
      }
      case TapeOp::kMax:  // max(mask, lowest)
        for (size_t k : {0, 1}) {
          std::optional<double> floor = Uniform(Input(s, k));
          if (floor && IsMinusMuch(*floor)) return Bounded(ReadFloat(Input(s, 1 - k)), *floor);
        }
        return Unknown(s);
      case TapeOp::kMul:
        for (size_t k : {0, 1}) {
          const std::optional<double> factor = Uniform(Input(s, k));
          if (factor && *factor > 0) return Scaled(s, ReadFloat(Input(s, 1 - k)), *factor);
        }
        return Unknown(s);
      case TapeOp::kSelect: return ReadSelect(s);
      default: return Unknown(s);
    }
  }

  Meaning Scaled(const Seen& s, Meaning m, double factor) {
    m.beyond = ScaledMask(m.beyond, factor);  // NaN stays NaN
    if (!m.any || m.beyond > kMinusMuch) return Unknown(s);
    if (m.rest != kNoNode) m.rest = b_.BinaryScalar(TapeOp::kMul, m.rest, factor);
    return m;
  }

  // The value is at least `floor`.
  static Meaning Bounded(Meaning m, double floor) {
    m.beyond = std::max(m.beyond, floor);  // NaN stays NaN
    return m;
  }

  bool SameType(const Meaning& x, const Meaning& y) const {
    return x.rest == kNoNode || y.rest == kNoNode || b_.dtype(x.rest) == b_.dtype(y.rest);
  }

  // where(kept, 0, dropped) and where(absent, dropped, 0); the other branch may be a mask itself.
  Meaning ReadSelect(const Seen& s) {
    for (size_t dropped : {2, 1}) {
      std::optional<double> value = Uniform(Input(s, dropped));
      if (!value || !IsMinusMuch(*value)) continue;
      Seen other = Input(s, 3 - dropped);
      Meaning keep = ReadBool(Input(s, 0), dropped == 2);
      keep.beyond = *value;
      if (keep.rest != kNoNode) {
        DType type = g_->node(s.node).dtype;
        keep.rest = b_.Select(keep.rest, b_.Scalar(type, 0), b_.Scalar(type, *value));
      }
      if (Uniform(other) == 0.0) return keep.any ? keep : Unknown(s);
      Meaning more = ReadFloat(other);
      return Both(s, keep, more, TapeOp::kAdd);
    }
    return Unknown(s);
  }

  // A bool mask; it keeps where it equals `truth`.
  Meaning ReadBool(const Seen& s, bool truth) {
    const Node& n = g_->node(s.node);
    Meaning unknown = {kNoNode, kNoNode, false};
    if (++steps_ > kMostSteps) return {kNoNode, truth ? AsNode(s) : b_.Unary(TapeOp::kNot, AsNode(s)), false};
    if (n.op == Op::kConstant && truth) return Constant(s, false);
    if (n.op == Op::kIndexedRead && truth) return Table(s, false);
    TapeOp op = OpOf(s);
    switch (op) {
      case TapeOp::kNot: return ReadBool(Input(s, 0), !truth);
      case TapeOp::kCast:
        if (g_->node(n.inputs[0]).dtype == DType::kBool) return ReadBool(Input(s, 0), truth);
        break;
      case TapeOp::kBitAnd:
      case TapeOp::kMul:
      case TapeOp::kMin:
        if (truth) return Both(s, ReadBool(Input(s, 0), true), ReadBool(Input(s, 1), true), TapeOp::kBitAnd);
        break;
      case TapeOp::kBitOr:
      case TapeOp::kMax:
        if (!truth)
          return Both(s, ReadBool(Input(s, 0), false), ReadBool(Input(s, 1), false), TapeOp::kBitAnd);
        break;
      case TapeOp::kLess:
      case TapeOp::kLessEqual: {
        NodeId limit = Compared(s, truth);
        if (limit != kNoNode) return Runtime(limit);
        break;
      }
      default: break;
    }
    unknown.rest = AsNode(s);
    if (!truth) unknown.rest = b_.Unary(TapeOp::kNot, unknown.rest);
    return unknown;
  }

  // A limit known only at run time.
  static Meaning Runtime(NodeId limit) {
    Meaning m{limit, kNoNode, true};
    m.may_be_empty = true;
    return m;
  }

  // key < x, key <= x and their negated mirror images, with key counting from a constant: the limit, or
  // kNoNode.
  NodeId Compared(const Seen& s, bool truth) {
    // x < y, kept where false, is y <= x.
    bool or_equal = (OpOf(s) == TapeOp::kLessEqual) == truth;
    Seen low = Input(s, truth ? 0 : 1), high = Input(s, truth ? 1 : 0);
    if (IsFloat(g_->node(low.node).dtype)) return kNoNode;
    std::optional<int64_t> first = Counts(low);
    NodeId row = first ? RowOf(high) : kNoNode;
    if (row == kNoNode) return kNoNode;
    row = b_.Cast(row, DType::kI64);
    int64_t shift = (or_equal ? 1 : 0) - *first;
    return shift == 0 ? row : b_.BinaryScalar(TapeOp::kAdd, row, static_cast<double>(shift));
  }

  // If the value is c + key everywhere: c.
  std::optional<int64_t> Counts(const Seen& s) {
    if (++steps_ > kMostSteps) return std::nullopt;
    const Node& n = g_->node(s.node);
    if (n.op == Op::kPointwise && (OpOf(s) == TapeOp::kAdd || OpOf(s) == TapeOp::kSub)) {
      std::optional<double> c = Uniform(Input(s, 1));
      std::optional<int64_t> first = c ? Counts(Input(s, 0)) : std::nullopt;
      if (first) return *first + static_cast<int64_t>(OpOf(s) == TapeOp::kAdd ? *c : -*c);
      return std::nullopt;
    }
    if (OpOf(s) == TapeOp::kCast) return Counts(Input(s, 0));
    ir::View line = s.view;  // one row; all others must be equal
    const Shape shape = line.shape();
    for (int d = 0; d + 1 < shape.rank; ++d) {
      if (shape[d] > 1 && line.steps.back().strides[d] != 0) return std::nullopt;
      line = ir::Slice(line, d, 0, 1, 1);
    }
    if (!line.affine()) return std::nullopt;
    if (n.op == Op::kIota && n.shape.rank == 1) {
      bool unit = line.steps[0].strides[shape.rank - 1] == 1 || shape[shape.rank - 1] == 1;
      return unit ? std::optional<int64_t>(line.steps[0].offset) : std::nullopt;
    }
    std::vector<int64_t> values;
    if (n.op != Op::kConstant || !b_.ConstantInts(b_.ViewNode(s.node, line), &values)) return std::nullopt;
    for (size_t i = 1; i < values.size(); ++i) {
      if (values[i] != values[0] + static_cast<int64_t>(i)) return std::nullopt;
    }
    return values[0];
  }

  // The node as [b, h, s] if it does not depend on the key, otherwise kNoNode.
  NodeId RowOf(const Seen& s) {
    const Shape shape = s.view.shape();
    int last = shape.rank - 1;
    if (shape[last] > 1 && s.view.steps.back().strides[last] != 0) return kNoNode;
    return b_.Squeeze(b_.ViewNode(s.node, ShownOnce(ir::Slice(s.view, last, 0, 1, 1))), last);
  }

  // The number of keys that a row keeps, if they are a non-empty prefix; otherwise -1.
  static int64_t Prefix(const std::vector<int8_t>& keeps) {
    int64_t n = 0;
    while (n < static_cast<int64_t>(keeps.size()) && keeps[static_cast<size_t>(n)] == 1) ++n;
    for (size_t i = static_cast<size_t>(n); i < keeps.size(); ++i) {
      if (keeps[i] != 0) return -1;
    }
    return n >= 1 ? n : -1;
  }

  // 1: keeps, 0: drops, 2: neither.
  static int8_t Keeps(const ir::ConstantData& data, int64_t at, bool additive) {
    if (!additive) return scalar::Load<int64_t>(data.dtype, data.bytes.data(), at) != 0 ? 1 : 0;
    double v = scalar::Load<double>(data.dtype, data.bytes.data(), at);
    return v == 0 ? 1 : IsMinusMuch(v) ? 0 : 2;
  }

  static bool IsInfinite(const ir::ConstantData& data, int64_t at) {
    return !IsFloat(data.dtype) || std::isinf(scalar::Load<double>(data.dtype, data.bytes.data(), at));
  }
  // Limits of at least one key, from a table. `infinite`: everything dropped is -inf.
  static Meaning Known(NodeId limit, bool infinite) {
    Meaning m{limit, kNoNode, true};
    if (!infinite) m.beyond = std::numeric_limits<double>::quiet_NaN();
    return m;
  }

  const ir::ConstantData* BytesOf(NodeId id) const {
    const Node& n = g_->node(id);
    if (n.op != Op::kConstant) return nullptr;
    const ir::ConstantData& data = *n.As<ir::ConstantAttrs>().data;
    bool known = !data.synthetic && data.byte_size() <= ir::kMaxReadBytes;
    return known && (data.dtype == DType::kBool || IsFloat(data.dtype)) ? &data : nullptr;
  }

  Meaning Constant(const Seen& s, bool additive) {
    const ir::ConstantData* data = BytesOf(s.node);
    ir::View once = s.view;
    Shape rows = once.shape();
    if (data == nullptr || rows.elements() == 0) return Unknown(s);
    const int last = rows.rank - 1;
    const int64_t keys = rows[last];
    for (int d = 0; d < last; ++d) {
      if (once.steps.back().strides[d] == 0) once = ir::Slice(once, d, 0, 1, 1);
    }
    rows = once.shape();
    rows.rank = last;
    std::vector<int64_t> limits;
    std::vector<int8_t> row;
    bool prefixes = true, infinite = true;
    ir::ForEachElement(once, [&](int64_t, int64_t at) {
      row.push_back(Keeps(*data, at, additive));
      infinite = infinite && (row.back() != 0 || IsInfinite(*data, at));
      if (static_cast<int64_t>(row.size()) < keys) return;
      limits.push_back(Prefix(row));
      prefixes = prefixes && limits.back() >= 1;
      row.clear();
    });
    if (!prefixes) return Unknown(s);
    bool all = std::all_of(limits.begin(), limits.end(), [&](int64_t n) { return n == keys; });
    return Known(all ? kNoNode : b_.Ints(DType::kI64, rows, limits), infinite);
  }

  // Rows of a constant matrix, chosen by an index that does not depend on the key.
  Meaning Table(const Seen& s, bool additive) {
    const Node& n = g_->node(s.node);
    const ir::IndexedAttrs attrs = n.As<ir::IndexedAttrs>();
    const ir::ConstantData* data = BytesOf(n.inputs[0]);
    if (data == nullptr || attrs.dims.size() != 1) return Unknown(s);
    ir::View map = ir::Compose(attrs.map, s.view);
    NodeId index = RowOf(Input(s, 1));
    const Shape shape = map.shape();
    const int last = shape.rank - 1;
    if (index == kNoNode || !map.affine()) return Unknown(s);
    const ir::ViewStep& step = map.steps[0];
    for (int d = 0; d < last; ++d) {
      if (shape[d] > 1 && step.strides[d] != 0) return Unknown(s);
    }
    std::vector<int64_t> limits;
    std::vector<int8_t> row(static_cast<size_t>(shape[last]));
    bool infinite = true;
    for (int64_t v = 0; v < attrs.dims[0].extent; ++v) {
      for (int64_t t = 0; t < shape[last]; ++t) {
        int64_t at = step.offset + v * attrs.dims[0].stride + t * step.strides[last];
        row[static_cast<size_t>(t)] = Keeps(*data, at, additive);
        infinite = infinite && (row[static_cast<size_t>(t)] != 0 || IsInfinite(*data, at));
      }
      limits.push_back(Prefix(row));
      if (limits.back() < 1) return Unknown(s);
    }
    return Known(b_.Gather(b_.I64(limits), index, 0, attrs.dims[0].wrap), infinite);
  }

  static constexpr int kMostSteps = 256;  // limit of nodes examined for one mask
  Graph* g_;
  Builder b_;
  int steps_ = 0;
};

// The inputs of an attention after its mask becomes a limit.
struct Limited {
  NodeId q = kNoNode, mask = kNoNode, limit = kNoNode;
};

// Rows without any key must keep the model's result. With -inf, both forms give NaN. With a finite value,
// such a row sees all keys again: with their scores, if adding the value does not change the differences
// between them; with scores of 0 (no query), if it makes them all equal; otherwise, and where another mask
// may drop what the limit keeps, under the whole mask.
Limited Limit(Graph* graph, NodeId id, const Meaning& meaning, Reader* reader) {
  constexpr double kLeastShift = -1e5;  // added to scores, it leaves f32 two decimal places
  const ir::AttentionInputs in = ir::AttentionInputsOf(graph->node(id));
  const Shape q = graph->node(in.q).shape;
  const int64_t keys = graph->node(in.k).shape[2];
  const NodeId before = in.limit;
  Limited out{in.q, meaning.rest, before};
  if (meaning.limit == kNoNode) return out;
  Builder b = BuilderLike(graph, id);
  NodeId limit = meaning.limit;
  const bool alone = meaning.rest == kNoNode;
  // With a sink, such a row becomes 0, whatever drops its keys.
  const bool as_nothing = std::isinf(meaning.beyond) || in.sink != kNoNode;
  if (!as_nothing && (!alone || meaning.may_be_empty)) {
    const bool absorbs = Absorbs(meaning.beyond);
    NodeId keeps = kNoNode;  // whether a row keeps a key
    if (alone && (absorbs || meaning.beyond >= kLeastShift)) {
      keeps = b.Binary(TapeOp::kLess, b.Scalar(DType::kI64, 0), limit);
      const NodeId rows = b.Expand(keeps, Shape({q[0], q[1], q[2]}));
      if (absorbs) out.q = b.Select(b.Unsqueeze(rows, 3), in.q, b.Scalar(graph->node(in.q).dtype, 0));
    } else {
      out.mask = in.mask;
      const NodeId mask = b.ViewNode(graph->BaseOf(in.mask), ShownOnce(graph->ViewOf(in.mask)));
      const NodeId most = b.Squeeze(b.Reduce(ir::ReduceKind::kMax, mask, {3}, true), 3);
      keeps = b.Binary(TapeOp::kLess, b.Scalar(b.dtype(most), kMinusMuch), most);
    }
    limit = b.Select(keeps, limit, b.Scalar(DType::kI64, static_cast<double>(keys)));
  }
  out.limit = reader->Least(before, b.Expand(limit, Shape({q[0], q[1], q[2]})));
  return out;
}

}  // namespace

Result<PassResult> RecogniseCausal(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  std::map<std::pair<NodeId, std::string>, Meaning> known;  // layers share their mask
  int64_t kept = 0;
  for (NodeId id : graph->TopologicalOrder()) {
    if (graph->node(id).op != Op::kAttention || !graph->node(id).As<ir::AttentionAttrs>().has_mask) continue;
    const ir::AttentionInputs in = ir::AttentionInputsOf(graph->node(id));
    ir::AttentionAttrs attrs = graph->node(id).As<ir::AttentionAttrs>();
    Reader reader(graph, id);
    auto [it, added] =
        known.emplace(std::pair(graph->BaseOf(in.mask), ir::ToString(graph->ViewOf(in.mask))), Meaning());
    if (added) it->second = reader.Read(in.mask);
    const Meaning meaning = it->second;
    if (!meaning.any) continue;
    const Limited limited = Limit(graph, id, meaning, &reader);
    NodeId instead =
        BuilderLike(graph, id).Attention(limited.q, in.k, in.v, limited.mask, limited.limit, attrs, in.sink);
    if (!graph->CanReplace(id, instead)) continue;
    graph->Replace(id, instead);
    ++result.changes;
    kept += limited.mask != kNoNode;
  }
  Tidy(graph);
  result.text = Count(result.changes, "mask") + " made limits";
  if (kept > 0) result.text += ", " + std::to_string(kept) + " of them in part";
  return result;
}

}  // namespace rondo::passes
