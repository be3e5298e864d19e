#include "compiler/import/mask_uncached_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "compiler/import/place_by_place.h"
#include "compiler/ir/evaluate.h"
#include "compiler/ir/view_axis.h"
#include "core/scalar.h"

namespace rondo::importer {
namespace {

using ir::ConstantData;
using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

using Number = std::shared_ptr<const ConstantData>;

bool Is(const Number& number, double value) {
  return number != nullptr && scalar::Load<double>(number->dtype, number->bytes.data(), 0) == value;
}
constexpr double kLeast = -std::numeric_limits<double>::infinity();

Number NumberOf(DType dtype, double value) {
  std::vector<uint8_t> bytes(static_cast<size_t>(ByteSize(dtype)));
  scalar::Store(dtype, bytes.data(), 0, value);
  return ConstantData::Own(dtype, Shape{}, std::move(bytes));
}

// The facts about a node: its dim of positions, and the value at empty positions, if that is one number.
struct Positions {
  int axis = 0;
  Number behind;
};

class Dropper {
 public:
  Dropper(ir::Builder* b, NodeId real) : g_(b->graph()), b_(*b), real_(real) {}

  NotProven Drop(const std::vector<MaximumOfPositions>& maxima) {
    for (const MaximumOfPositions& maximum : maxima) {
      const NodeId scores = g_.node(maximum.node).inputs[0];
      if (Dropped(scores) || !IsRounded(scores)) continue;
      Mask(scores, maximum.axis, kLeast, g_.UsersOf(scores));
    }
    if (dropped_.empty()) return {};
    MaskFactors();
    return Show();
  }

 private:
  bool Dropped(NodeId id) const { return dropped_.count(id) != 0; }

  // Makes `readers` of `id` read `value` behind the real positions along `axis`.
  void Mask(NodeId id, int axis, double value, const std::vector<NodeId>& readers) {
    b_.SetSources(g_.node(id).sources);
    b_.SetAnnotations(g_.node(id).annotations);
    const Shape shape = b_.shape(id);
    Shape line = shape;
    for (int d = 0; d < line.rank; ++d) line[d] = d == axis ? shape[d] : 1;
    const NodeId holds = b_.Binary(TapeOp::kLess, b_.Iota(line, axis), real_);
    const NodeId masked = b_.Select(holds, id, b_.Scalar(b_.dtype(id), value));
    g_.node(masked).As<ir::PointwiseAttrs>().drops_uncached = true;
    dropped_[masked] = {axis, NumberOf(b_.dtype(id), value)};
    for (NodeId reader : readers) {
      for (size_t k = 0; k < g_.node(reader).inputs.size(); ++k) {
        if (g_.node(reader).inputs[k] == id) g_.SetInput(reader, k, masked);
      }
    }
  }

  // ------------------------------------------------------------------------- what is rounded

  // Whether values are rounded between the matmul that gives `scores` and the next matmul, or that matmul
  // multiplies quantised values.
  bool IsRounded(NodeId scores) { return RoundsBeside(scores, true) || RoundsBeside(scores, false); }
  // Searches the nodes before or after `scores`, up to a matmul.
  bool RoundsBeside(NodeId scores, bool before) {
    constexpr size_t kMost = 512;  // nodes that are looked at
    std::set<NodeId> seen = {scores};
    std::vector<NodeId> work = {scores};
    while (!work.empty() && seen.size() < kMost) {
      const Node& n = g_.node(work.back());
      work.pop_back();
      if (n.op == Op::kMatMul && IsQuantised(n.inputs[0]) && IsQuantised(n.inputs[1])) return true;
      if (n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().op == TapeOp::kRound) return true;
      const bool ends = n.op != Op::kView && n.op != Op::kPointwise;
      if (ends && (before || n.id != scores)) continue;
      for (NodeId other : before ? n.inputs : g_.UsersOf(n.id)) {
        if (seen.insert(other).second) work.push_back(other);
      }
    }
    return false;
  }
  // Whether `id` is computed from 8-bit integers with scales and zero points.
  bool IsQuantised(NodeId id) const {
    for (int step = 0; step < 8; ++step) {
      const Node& n = g_.node(g_.BaseOf(id));
      if (n.dtype == DType::kI8 || n.dtype == DType::kU8) return true;
      if (n.op != Op::kPointwise) return false;
      const auto known = [&](NodeId in) { return g_.IsConstant(g_.BaseOf(in)); };
      const auto next = std::find_if_not(n.inputs.begin(), n.inputs.end(), known);
      if (next == n.inputs.end()) return false;
      id = *next;
    }
    return false;
  }

  // -------------------------------------------------------------- what the weights are multiplied by

  // Whether a matmul sums over positions, if they lie along `axis` of operand `side`.
  bool AddsUp(const Node& product, size_t side, int axis) const {
    return axis == product.shape.rank - (side == 0 ? 1 : 2);
  }

  void MaskFactors() {
    const std::map<NodeId, Positions> known = Follow(nullptr);
    for (const auto& [id, positions] : known) {
      for (NodeId reader : g_.UsersOf(id)) {
        const Node& n = g_.node(reader);
        if (n.op != Op::kMatMul) continue;
        for (size_t side : {0, 1}) {
          if (n.inputs[side] != id || !AddsUp(n, side, positions.axis)) continue;
          const NodeId other = n.inputs[1 - side];
          if (known.count(other) == 0) MaskFactor(reader, other, n.shape.rank - (side == 0 ? 2 : 1));
        }
      }
    }
  }

  // A node between a cache and a matmul, with its dim of positions and its reader there.
  struct OnTheWay {
    NodeId node, reader;
    int axis;
  };

  // Masks a node from which `factor` is computed elementwise along its dim `axis`, as near to the cache as
  // possible, so that `factor` is 0 at empty positions. Outputs keep their values.
  void MaskFactor(NodeId reader, NodeId factor, int axis) {
    std::vector<OnTheWay> way = {{factor, reader, axis}};
    while (const std::optional<OnTheWay> next = Nearer(way.back())) way.push_back(*next);
    for (size_t k = way.size(); k-- > 0;) {
      const Number value = BecomesZero(way, k);
      if (value == nullptr) continue;
      const double number = scalar::Load<double>(value->dtype, value->bytes.data(), 0);
      Mask(way[k].node, way[k].axis, number, {way[k].reader});
      return;
    }
  }

  std::optional<OnTheWay> Nearer(const OnTheWay& at) {
    const Node& n = g_.node(at.node);
    if (g_.IsOutput(at.node) || Dropped(at.node)) return std::nullopt;
    if (n.op == Op::kView) {
      const Shape& base = g_.node(n.inputs[0]).shape;
      for (int d = 0; d < base.rank; ++d) {
        if (ir::AxisThrough(n.As<ir::ViewAttrs>().view, base, d) == at.axis)
          return OnTheWay{n.inputs[0], at.node, d};
      }
    }
    if (n.op != Op::kPointwise) return std::nullopt;
    NodeId next = kNoNode;
    for (NodeId in : n.inputs) {
      if (OneNumberOf(g_, in) != nullptr) continue;
      if (next != kNoNode) return std::nullopt;
      next = in;
    }
    return next == kNoNode ? std::nullopt : std::optional<OnTheWay>({next, at.node, at.axis});
  }

  // The value of way[k] with which the first node of `way` is 0: 0 for floats, the zero point for 8-bit
  // integers. Null if there is none.
  Number BecomesZero(const std::vector<OnTheWay>& way, size_t k) {
    const DType dtype = g_.node(way[k].node).dtype;
    const bool integer = dtype == DType::kI8 || dtype == DType::kU8;
    if (!integer && !IsFloat(dtype)) return nullptr;
    const int low = dtype == DType::kI8 ? -128 : 0;
    for (int i = 0; i < (integer ? 256 : 1); ++i) {
      const Number value = NumberOf(dtype, integer ? low + i : 0);
      Number x = value;
      for (size_t above = k; above-- > 0 && x != nullptr;) {
        const Node& n = g_.node(way[above].node);
        if (n.op == Op::kView) continue;
        ir::Values inputs;
        for (NodeId in : n.inputs) {
          const Number number = OneNumberOf(g_, in);
          inputs.push_back(number == nullptr ? x : number);
        }
        x = Evaluated(n, inputs);
      }
      if (Is(x, 0)) return value;
    }
    return nullptr;
  }

  // The result of a scalar operation on one element of each input; null if that is an error.
  static Number Evaluated(const Node& n, const ir::Values& inputs) {
    Node one = n;
    one.shape = Shape{};
    const auto value = ir::EvaluateNode(one, inputs);
    return value.ok() ? *value : nullptr;
  }

  // ------------------------------------------------------------------------- what can be shown

  NotProven Show() {
    NotProven found;
    Follow(&found);
    return found;
  }

  // Follows all nodes computed from masked ones, up to sums over the positions. `found`: a node whose result
  // is not proven to be the same for any number of empty positions.
  std::map<NodeId, Positions> Follow(NotProven* found) {
    std::map<NodeId, Positions> known = dropped_;
    for (NodeId id : g_.TopologicalOrder()) {
      const Node& n = g_.node(id);
      const auto is_known = [&](NodeId in) { return known.count(in) != 0; };
      if (known.count(id) != 0 || std::none_of(n.inputs.begin(), n.inputs.end(), is_known)) continue;
      const char* why = nullptr;
      std::optional<Positions> positions = After(n, known, &why);
      if (positions) known.emplace(id, std::move(*positions));
      if (why != nullptr && found != nullptr && found->node == kNoNode) *found = {id, why};
    }
    return known;
  }

  // The facts about a node that reads some of `known`; nothing if it no longer has positions. `why`: the
  // reason why its result may differ.
  std::optional<Positions> After(const Node& n, const std::map<NodeId, Positions>& known, const char** why) {
    switch (n.op) {
      case Op::kView: {
        const Positions& in = known.at(n.inputs[0]);
        const int axis = ir::AxisThrough(n.As<ir::ViewAttrs>().view, g_.node(n.inputs[0]).shape, in.axis);
        if (axis < 0) break;
        return Positions{axis, in.behind};
      }
      case Op::kPointwise: return AfterPointwise(n, known, why);
      case Op::kReduce: {
        const Positions& in = known.at(n.inputs[0]);
        const ir::ReduceAttrs& attrs = n.As<ir::ReduceAttrs>();
        const bool sum = attrs.kind == ir::ReduceKind::kSum, max = attrs.kind == ir::ReduceKind::kMax;
        const bool stays = (sum && Is(in.behind, 0)) || (max && Is(in.behind, kLeast));
        if (std::find(attrs.axes.begin(), attrs.axes.end(), in.axis) == attrs.axes.end())
          return Positions{in.axis, stays ? in.behind : nullptr};
        if (!stays) *why = "it adds up, or compares, over positions that may hold nothing";
        return std::nullopt;
      }
      case Op::kMatMul: return AfterMatmul(n, known, why);
      default: break;
    }
    *why = "what it makes of positions that hold nothing is not known, and their scores are rounded";
    return std::nullopt;
  }

  std::optional<Positions> AfterPointwise(const Node& n, const std::map<NodeId, Positions>& known,
                                          const char** why) {
    Positions out;
    out.axis = -1;
    Number given[3];
    bool all = n.inputs.size() <= 3;
    for (size_t k = 0; k < n.inputs.size() && k < 3; ++k) {
      const auto it = known.find(n.inputs[k]);
      given[k] = it != known.end() ? it->second.behind : OneNumberOf(g_, n.inputs[k]);
      all = all && given[k] != nullptr;
      if (it == known.end()) continue;
      if (out.axis >= 0 && out.axis != it->second.axis) {
        *why = "its inputs have the cached positions along different dims";
        return std::nullopt;
      }
      out.axis = it->second.axis;
    }
    if (all) {
      out.behind = Evaluated(n, ir::Values(given, given + n.inputs.size()));
      return out;
    }
    // The other operand is computed at run time: the greatest score, or the sum of a row's weights. Both are
    // finite and the sum is at least 1; otherwise the whole row is NaN.
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    const auto along = [&](size_t k) { return ChangesAlong(n.inputs[k], out.axis); };
    if (op == TapeOp::kSub && Is(given[0], kLeast) && !along(1)) out.behind = given[0];
    if (op == TapeOp::kDiv && Is(given[0], 0) && !along(1)) out.behind = given[0];
    if (op == TapeOp::kMul && Is(given[0], 0) && !along(1)) out.behind = given[0];
    if (op == TapeOp::kMul && Is(given[1], 0) && !along(0)) out.behind = given[1];
    const bool same = op == TapeOp::kSelect && given[1] != nullptr && given[2] != nullptr &&
                      std::equal(given[1]->bytes.begin(), given[1]->bytes.end(), given[2]->bytes.begin());
    if (same) out.behind = given[1];
    return out;
  }
  // Whether the node may vary along dim `axis`.
  bool ChangesAlong(NodeId id, int axis) const {
    const Node& n = g_.node(id);
    return n.op != Op::kView || n.As<ir::ViewAttrs>().view.steps.back().strides[axis] != 0;
  }

  std::optional<Positions> AfterMatmul(const Node& n, const std::map<NodeId, Positions>& known,
                                       const char** why) {
    const auto side = [&](size_t k) {
      const auto it = known.find(n.inputs[k]);
      return it == known.end() ? nullptr : &it->second;
    };
    const Positions* sides[2] = {side(0), side(1)};
    const bool sums[2] = {sides[0] != nullptr && AddsUp(n, 0, sides[0]->axis),
                          sides[1] != nullptr && AddsUp(n, 1, sides[1]->axis)};
    if (sums[0] || sums[1]) {
      if (sums[0] && sums[1] && Is(sides[0]->behind, 0) && Is(sides[1]->behind, 0)) return std::nullopt;
      *why = "it adds up over positions that may hold nothing";
      return std::nullopt;
    }
    if (sides[0] != nullptr && sides[1] != nullptr) {
      *why = "both of its sides have the cached positions, which it does not add up over";
      return std::nullopt;
    }
    return Positions{(sides[0] != nullptr ? sides[0] : sides[1])->axis, nullptr};
  }

  Graph& g_;
  ir::Builder& b_;
  const NodeId real_;
  std::map<NodeId, Positions> dropped_;  // the masks
};

}  // namespace

NotProven DropUncached(ir::Builder* b, const std::vector<MaximumOfPositions>& maxima, NodeId real) {
  return Dropper(b, real).Drop(maxima);
}

}  // namespace rondo::importer
