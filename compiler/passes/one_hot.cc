#include "compiler/passes/one_hot.h"

#include <utility>

#include "compiler/passes/match.h"
#include "core/scalar.h"

namespace rondo::passes {
namespace {

// A node, a view of it, and whether its truth value is negated.
struct Shown {
  NodeId node = kNoNode;
  View view;
  bool flipped = false;
};

bool IsInteger(DType dtype) { return NaturalType(dtype) == TapeType::kI64 && dtype != DType::kBool; }

// The comparison that decides the truth of `shown`, below negations, casts and selections of constants.
std::optional<Shown> Comparison(const Graph& g, Shown shown) {
  constexpr int kMostSteps = 16;
  for (int step = 0; step < kMostSteps; ++step) {
    const Node& n = g.node(shown.node);
    if (n.op == Op::kView) {
      shown.view = ir::Compose(n.As<ir::ViewAttrs>().view, shown.view);
      shown.node = n.inputs[0];
      continue;
    }
    if (n.op != Op::kPointwise) return std::nullopt;
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    if (op == TapeOp::kEqual) return shown;
    if (op == TapeOp::kNot) {
      shown.flipped = !shown.flipped;
    } else if (op == TapeOp::kCast) {
      // Other casts may round non-zero values to 0.
      if (n.dtype != DType::kBool && g.node(n.inputs[0]).dtype != DType::kBool) return std::nullopt;
    } else if (op == TapeOp::kSelect) {
      const std::optional<double> yes = UniformValue(g, n.inputs[1]), no = UniformValue(g, n.inputs[2]);
      if (!yes || !no || (*yes != 0) == (*no != 0)) return std::nullopt;
      if (*yes == 0) shown.flipped = !shown.flipped;
    } else {
      return std::nullopt;
    }
    shown.node = n.inputs[0];
  }
  return std::nullopt;
}

// The integer value of element `at` of `n`, if known: of a counter along one axis, or a constant.
std::optional<int64_t> KnownInteger(const Node& n, int64_t at) {
  if (n.op == Op::kIota) {
    const bool one_axis = n.shape.elements() == n.shape[n.As<ir::IotaAttrs>().axis];
    return one_axis ? std::optional<int64_t>(at) : std::nullopt;
  }
  if (n.op != Op::kConstant || !IsInteger(n.dtype)) return std::nullopt;
  const ir::ConstantData& data = *n.As<ir::ConstantAttrs>().data;
  if (data.synthetic) return std::nullopt;
  return scalar::Load<int64_t>(data.dtype, data.bytes.data(), at);
}

// Input `slot` of comparison `shown`, as a view of a node that is not a view; looks through casts between
// wide integers.
std::optional<Shown> Side(const Graph& g, const Shown& shown, size_t slot) {
  Shown side = {g.node(shown.node).inputs[slot], shown.view, false};
  while (true) {
    const Node& n = g.node(side.node);
    if (n.op == Op::kView) {
      side.view = ir::Compose(n.As<ir::ViewAttrs>().view, side.view);
    } else if (const Node* cast = AsPointwise(g, side.node, TapeOp::kCast);
               cast == nullptr || !IsInteger(cast->dtype) || !IsInteger(g.node(cast->inputs[0]).dtype) ||
               ByteSize(cast->dtype) < 4) {
      break;
    }
    side.node = n.inputs[0];
  }
  if (!side.view.affine() || !IsInteger(g.node(side.node).dtype)) return std::nullopt;
  return side;
}

// The single axis along which `side` counts up by one, and its first number.
std::optional<std::pair<int, int64_t>> Counts(const Graph& g, const Shown& side) {
  const ir::ViewStep& step = side.view.steps[0];
  int axis = -1;
  for (int d = 0; d < step.shape.rank; ++d) {
    if (step.shape[d] == 1 || step.strides[d] == 0) continue;
    if (axis >= 0) return std::nullopt;
    axis = d;
  }
  if (axis < 0) return std::nullopt;
  const Node& n = g.node(side.node);
  const std::optional<int64_t> first = KnownInteger(n, step.offset);
  for (int64_t i = 0; first && i < step.shape[axis]; ++i) {
    const std::optional<int64_t> value = KnownInteger(n, step.offset + i * step.strides[axis]);
    if (!value || *value != *first + i) return std::nullopt;
  }
  if (!first) return std::nullopt;
  return std::pair(axis, *first);
}

// Whether `id` has the same contents at all positions along `axis`.
bool IsSameAlong(const Graph& g, NodeId id, int axis) {
  const View view = g.ViewOf(id);
  return view.affine() && view.steps[0].strides[axis] == 0;
}

}  // namespace

std::optional<OneHotUpdate> OneHotUpdateOf(const Graph& g, NodeId id) {
  const Node* n = AsPointwise(g, id, TapeOp::kSelect);
  if (n == nullptr) return std::nullopt;
  const std::optional<Shown> equal = Comparison(g, {n->inputs[0], ir::DenseView(n->shape), false});
  if (!equal) return std::nullopt;
  for (size_t counter : {size_t{0}, size_t{1}}) {
    const std::optional<Shown> counts = Side(g, *equal, counter), position = Side(g, *equal, 1 - counter);
    if (!counts || !position) continue;
    const auto axis = Counts(g, *counts);
    if (!axis || position->view.steps[0].strides[axis->first] != 0) continue;
    OneHotUpdate update;
    update.old = n->inputs[equal->flipped ? 1 : 2];
    update.fresh = n->inputs[equal->flipped ? 2 : 1];
    update.position = position->node;
    update.positions = ir::Slice(position->view, axis->first, 0, 1, 1);
    update.axis = axis->first;
    update.first = axis->second;
    const Op op = g.node(g.BaseOf(update.fresh)).op;
    if (IsSameAlong(g, update.fresh, update.axis) || op == Op::kInput || op == Op::kConstant) return update;
  }
  return std::nullopt;
}

OneHotWrite MakeOneHotWrite(Graph* g, NodeId id, const OneHotUpdate& update) {
  ir::Builder b = BuilderLike(g, id);
  const Shape shape = g->node(id).shape;
  const View whole = ir::DenseView(shape);
  OneHotWrite write;
  write.attrs.map = ir::Slice(whole, update.axis, 0, 1, 1);
  write.attrs.dims = {{whole.steps[0].strides[update.axis], shape[update.axis], false, false}};
  write.attrs.may_collide = false;
  write.index = b.Cast(b.ViewNode(update.position, update.positions), DType::kI64);
  if (update.first != 0)
    write.index = b.BinaryScalar(TapeOp::kSub, write.index, static_cast<double>(update.first));
  if (IsSameAlong(*g, update.fresh, update.axis)) {
    write.updates = b.Slice(update.fresh, update.axis, 0, 1, 1);
  } else {
    write.updates = b.IndexedRead(update.fresh, {write.index}, write.attrs, write.attrs.map.shape());
  }
  return write;
}

}  // namespace rondo::passes
