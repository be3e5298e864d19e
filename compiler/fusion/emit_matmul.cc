// Matmuls, attention and top k: the loops are the sink's, with roles that depend on how the accumulator moves
// with them.
#include <algorithm>
#include <optional>

#include "compiler/fusion/emit_groups.h"

namespace rondo::fusion {

namespace {

// The skeleton of both: an accumulator tensor whose dims are [outer..., m, n], read by the epilogue through
// one view.
class AccumulatorPart {
 public:
  // `obstacle`: the reason where Collect or Resolve returns false.
  AccumulatorPart(Context* context, const Group& group, Obstacle* obstacle)
      : c_(*context), group_(group), builder_(context, group.id, &space_), obstacle_(*obstacle) {}

  IterationSpace& space() { return space_; }
  PartEmitter& builder() { return builder_; }

  // Finds the epilogue's operands and gives every loop a role. False: an obstacle.
  bool Collect() {
    const Shape& domain = SinkDomain(c_, group_);
    AddDomain(domain, &space_, &builder_);
    builder_.SetIntercept(
        [this](TapeWriter* tape, NodeId id, const View& view) { return Accumulator(tape, id, view); });
    TapeWriter collected;
    StoreSink(c_, group_, ir::DenseView(domain), &builder_, &collected);
    if (builder_.obstacle().found) {
      obstacle_ = builder_.obstacle();
      return false;
    }
    const Shape& shape = c_.node(group_.anchors[0]).shape;
    if (!acc_view_ || several_views_) return Refuse();
    acc_map_ = space_.AddCoordinates(shape, *acc_view_, 0, DenseStrides(domain));
    if (!space_.Resolve()) {
      if (space_.failed() == acc_map_) return Refuse();
      obstacle_ = builder_.ObstacleOf(space_.failed());
      return false;
    }
    for (int l = 0; l < space_.loops(); ++l) {
      int dim = DimOf(l);
      if (dim < 0 && space_.extent(l) != 1) return Refuse();
      space_.SetRole(l, dim < 0 || dim < shape.rank - 2 ? Role::kOuter
                        : dim == shape.rank - 2         ? Role::kM
                                                        : Role::kN);
    }
    return true;
  }

  // Strides of the sink's loops in a dense tensor whose dims lie under dims of the accumulator:
  // step[d] is what one step along accumulator dim d adds.
  std::vector<int64_t> Walk(const std::vector<int64_t>& step) const {
    std::vector<int64_t> strides(static_cast<size_t>(space_.loops()), 0);
    for (int l = 0; l < space_.loops(); ++l) {
      const std::vector<int64_t>& move = space_.CoordinateStep(acc_map_, l);
      for (size_t d = 0; d < step.size(); ++d) strides[l] += move[d] * step[d];
    }
    return strides;
  }

  // An operand of the skeleton: `input` of the anchor, walked by `strides` through the dense index space of
  // `shown` (a view over the input; by default the input's own).
  int AddRole(NodeId anchor, int slot, const std::string& key, std::vector<int64_t> strides,
              const View* shown = nullptr) {
    NodeId input = c_.node(anchor).inputs[slot];
    NodeId base = c_.base(input);
    View view = ir::Compose(HomeOf(&c_, base).placement, c_.graph.ViewOf(input));
    if (shown != nullptr) view = ir::Compose(view, *shown);
    int map = space_.AddMap(view, 0, std::move(strides));
    builder_.Blame(map, anchor, slot);
    return builder_.AddOperand(base, Mode::kRead, map, key);
  }

  // Evaluates the lhs at its own points, walked by `strides`. Returns the first operand that it loads.
  int Prologue(NodeId anchor, const std::vector<int64_t>& strides, TapeWriter* tape) {
    NodeId input = c_.node(anchor).inputs[0];
    const Shape& shape = c_.node(input).shape;
    int epilogue_domain = builder_.domain();
    if (prologue_domain_ < 0) prologue_domain_ = space_.AddMap(ir::DenseView(shape), 0, strides);
    builder_.SetDomain(prologue_domain_);
    int reg = builder_.InputValue(tape, anchor, 0, ir::DenseView(shape));
    builder_.SetDomain(epilogue_domain);
    int operand = 0;
    for (const TapeInst& inst : tape->insts()) {
      if (inst.op == TapeOp::kLoad) {
        operand = inst.arg;
        break;
      }
    }
    TapeInst yield;
    yield.op = TapeOp::kYield;
    yield.type = tape->type(reg);
    yield.a = static_cast<uint16_t>(reg);
    tape->Add(yield);
    return operand;
  }

  // After all roles are added. False: an obstacle.
  bool Resolve() {
    if (space_.Resolve()) return true;
    obstacle_ = builder_.ObstacleOf(space_.failed());
    return false;
  }

  // Batches that share their rhs become more rows (M) of one matmul. Batches that share the lhs become more
  // columns (N), unless there are so few rows that reading the rhs batch by batch is better. `left`: the
  // operands that the lhs reads.
  void MergeBatches(const std::vector<int>& left, const std::vector<uint16_t>& right) {
    constexpr int64_t kFewRows = 8, kFewColumns = 16;
    auto moves = [&](const auto& operands, int loop) {
      return std::any_of(operands.begin(), operands.end(), [&](int o) { return builder_.Moves(o, loop); });
    };
    for (int l = 0; l < space_.loops(); ++l) {
      if (space_.role(l) == Role::kOuter && !moves(right, l)) space_.SetRole(l, Role::kM);
    }
    if (space_.PointsOf(Role::kM) < kFewRows && space_.PointsOf(Role::kN) >= kFewColumns) return;
    for (int l = 0; l < space_.loops(); ++l) {
      const bool shared = !moves(left, l) && !builder_.Counts(l);
      if (space_.role(l) == Role::kOuter && shared) space_.SetRole(l, Role::kN);
    }
  }

  void Arrange(const std::vector<Role>& needed) { space_.Arrange(acc_map_, needed); }

  Tape Epilogue() {
    builder_.BeginEmitting();
    TapeWriter tape;
    StoreSink(c_, group_, ir::DenseView(SinkDomain(c_, group_)), &builder_, &tape);
    return builder_.CopyTape(tape);
  }

 private:
  std::optional<int> Accumulator(TapeWriter* tape, NodeId id, const View& view) {
    auto it = std::find(group_.anchors.begin(), group_.anchors.end(), id);
    if (it == group_.anchors.end()) return std::nullopt;
    if (acc_view_ && !(*acc_view_ == view)) several_views_ = true;
    acc_view_ = view;
    int index = static_cast<int>(it - group_.anchors.begin());
    return tape->Add(AccInst(NaturalType(c_.node(id).dtype), index));
  }

  bool Refuse() {
    obstacle_.found = true;
    obstacle_.reader = group_.anchors[0];
    obstacle_.slot = -1;
    return false;
  }

  int DimOf(int loop) const {
    const std::vector<int64_t>& move = space_.CoordinateStep(acc_map_, loop);
    for (size_t d = 0; d < move.size(); ++d) {
      if (move[d] != 0) return static_cast<int>(d);
    }
    return -1;
  }

  Context& c_;
  const Group& group_;
  IterationSpace space_;
  PartEmitter builder_;
  Obstacle& obstacle_;
  std::optional<View> acc_view_;
  bool several_views_ = false;
  int acc_map_ = -1, prologue_domain_ = -1;
};

// The operands that a prologue loads; without a prologue, `lhs`.
std::vector<int> LoadedBy(const TapeWriter& prologue, int lhs) {
  std::vector<int> operands = {lhs};
  for (const TapeInst& inst : prologue.insts()) {
    if (inst.op == TapeOp::kLoad) operands.push_back(inst.arg);
  }
  return operands;
}

// The reduced loop along which an operand's elements are contiguous; -1: none.
int LoopSideBySide(const Part& part, uint16_t operand) {
  const int first = part.outer + part.m + part.n;
  for (int loop = first; loop < first + part.reduced; ++loop) {
    const auto at = static_cast<size_t>(loop);
    if (part.loops[at] > 1 && part.operands[operand].strides[at] == 1) return loop;
  }
  return -1;
}

// On GPUs, two operands that are contiguous along different loops would be read element by element: the
// smaller one is copied into the other's order once.
void WantOneOrder(Context* context, const Group& group, const Part& part, Obstacle* obstacle) {
  const NodeId matmul = group.anchors[0];
  const Node& node = context->node(matmul);
  if (!context->options.target.many_threads || !group.prologue.empty() ||
      part.packed.type != PackedType::kNone)
    return;
  const int lhs = LoopSideBySide(part, part.lhs), rhs = LoopSideBySide(part, part.rhs[0]);
  if (lhs < 0 || rhs < 0 || lhs == rhs || !context->in_one_order.insert(matmul).second) return;
  const bool copies_lhs =
      context->node(node.inputs[0]).shape.elements() <= context->node(node.inputs[1]).shape.elements();
  obstacle->found = obstacle->copies_at_once = true;
  obstacle->reader = matmul;
  obstacle->slot = copies_lhs ? 0 : 1;
}

}  // namespace

Status EmitMatmul(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  Context& c = *context;
  AccumulatorPart acc(context, group, obstacle);
  if (!acc.Collect()) return Status::Ok();
  const Node& first = c.node(group.anchors[0]);
  int rank = first.shape.rank;
  const Shape& lhs = c.node(first.inputs[0]).shape;
  int64_t k = lhs[rank - 1], n = first.shape[rank - 1];
  std::vector<int64_t> lhs_step = DenseStrides(lhs);
  lhs_step[rank - 1] = 0;
  std::vector<int64_t> lhs_walk = acc.Walk(lhs_step);
  const auto* packed = std::get_if<ir::PackedAttrs>(&first.attrs);
  PackedShape shape = {n, k, 1, 8};
  if (packed != nullptr) shape = {n, k, packed->weights.block, BitsOf(packed->weights.type)};
  std::vector<int64_t> rhs_step = packed != nullptr ? std::vector<int64_t>(static_cast<size_t>(rank), 0)
                                                    : DenseStrides(c.node(first.inputs[1]).shape);
  rhs_step[rank - 2] = 0;
  if (packed != nullptr) rhs_step[rank - 1] = shape.Stride();
  std::vector<int64_t> rhs_walk = acc.Walk(rhs_step);
  rhs_step[rank - 1] = shape.ScaleStride();
  std::vector<int64_t> scale_walk = acc.Walk(rhs_step);
  int k_loop = acc.space().AddLoop(k, Role::kReduced);
  lhs_walk.resize(static_cast<size_t>(k_loop) + 1, 1);
  rhs_walk.resize(static_cast<size_t>(k_loop) + 1, packed != nullptr ? 1 : n);
  scale_walk.resize(static_cast<size_t>(k_loop) + 1, 0);
  Part part;
  part.skeleton = Skeleton::kMatMul;
  part.acc_type = NaturalType(first.dtype);
  part.tf32 = c.MayRoundToTf32(first);
  TapeWriter collected;
  part.lhs = static_cast<uint16_t>(group.prologue.empty() ? acc.AddRole(first.id, 0, "lhs", lhs_walk)
                                                          : acc.Prologue(first.id, lhs_walk, &collected));
  std::vector<uint16_t> rhs;
  for (size_t j = 0; j < group.anchors.size(); ++j) {
    int operand = acc.AddRole(group.anchors[j], 1, "rhs" + std::to_string(j), rhs_walk);
    rhs.push_back(static_cast<uint16_t>(operand));
  }
  std::vector<uint16_t> scales, zeros;
  for (size_t j = 0; packed != nullptr && j < group.anchors.size(); ++j) {
    const auto add = [&](int slot, const char* name) {
      return static_cast<uint16_t>(acc.AddRole(group.anchors[j], slot, name + std::to_string(j), scale_walk));
    };
    scales.push_back(add(2, "scales"));
    if (packed->has_zeros) zeros.push_back(add(3, "zeros"));
  }
  if (!acc.Resolve()) return Status::Ok();
  acc.MergeBatches(LoadedBy(collected, part.lhs), rhs);
  acc.Arrange({Role::kM, Role::kN, Role::kReduced});
  part.rhs = c.program.arena->Copy(rhs);
  if (packed != nullptr) {
    part.packed = packed->weights;
    part.scales = c.program.arena->Copy(scales);
    part.zeros = c.program.arena->Copy(zeros);
  }
  part.epilogue = acc.Epilogue();
  if (!group.prologue.empty()) {
    TapeWriter prologue;
    acc.Prologue(first.id, lhs_walk, &prologue);
    part.prologue = acc.builder().CopyTape(prologue);
  }
  RONDO_RETURN_IF_ERROR(acc.builder().Finish(part, op));
  WantOneOrder(context, group, op->kernel.parts[0], obstacle);
  return Status::Ok();
}

Status EmitAttention(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  Context& c = *context;
  AccumulatorPart acc(context, group, obstacle);
  if (!acc.Collect()) return Status::Ok();
  const Node& node = c.node(group.anchors[0]);
  const ir::AttentionAttrs& attrs = node.As<ir::AttentionAttrs>();
  const Shape& q = c.node(node.inputs[0]).shape;  // [b, h, s, d]
  const Shape& k = c.node(node.inputs[1]).shape;  // [b, g, t, d]
  const Shape& v = c.node(node.inputs[2]).shape;  // [b, g, t, e]
  int64_t b = q[0], h = q[1], s = q[2], d = q[3], g = k[1], t = k[2], e = v[3];
  // Heads that share keys: the key tensors shown with every head, without copies.
  auto repeated = [&](int64_t features) {
    View view = ir::DenseView(Shape{b, g, 1, t, features});
    view = ir::Expand(view, Shape{b, g, h / g, t, features});
    return ir::Reshape(view, Shape{b, h, t, features});
  };
  View keys = repeated(d), values = repeated(e);
  std::vector<int64_t> q_walk = acc.Walk({h * s * d, s * d, d, 0});
  std::vector<int64_t> k_walk = acc.Walk({h * t * d, t * d, 0, 0});
  std::vector<int64_t> v_walk = acc.Walk({h * t * e, t * e, 0, 1});
  std::vector<int64_t> mask_walk = acc.Walk({h * s * t, s * t, t, 0});
  std::vector<int64_t> limit_walk = acc.Walk({h * s, s, 1, 0});
  acc.space().AddLoop(t, Role::kReduced);
  acc.space().AddLoop(d, Role::kFeature);
  auto with = [](std::vector<int64_t> walk, int64_t key, int64_t feature) {
    walk.push_back(key);
    walk.push_back(feature);
    return walk;
  };
  Part part;
  part.skeleton = Skeleton::kAttention;
  part.scale = attrs.scale;
  part.softcap = attrs.softcap;
  part.nan_to_zero = attrs.nan_to_zero;
  part.acc_type = NaturalType(node.dtype);
  part.lhs = static_cast<uint16_t>(acc.AddRole(node.id, 0, "q", with(q_walk, 0, 1)));
  part.keys = static_cast<uint16_t>(acc.AddRole(node.id, 1, "k", with(k_walk, d, 1), &keys));
  part.values = static_cast<uint16_t>(acc.AddRole(node.id, 2, "v", with(v_walk, e, 0), &values));
  int slot = 3;
  if (attrs.has_mask) {
    part.mask = static_cast<uint16_t>(acc.AddRole(node.id, slot++, "mask", with(mask_walk, 1, 0)));
  }
  if (attrs.has_limit) {
    part.limit = static_cast<uint16_t>(acc.AddRole(node.id, slot++, "limit", with(limit_walk, 0, 0)));
  }
  if (!acc.Resolve()) return Status::Ok();
  acc.Arrange({Role::kM, Role::kN, Role::kReduced, Role::kFeature});
  part.epilogue = acc.Epilogue();
  return acc.builder().Finish(part, op);
}

Status EmitTopK(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  Context& c = *context;
  AccumulatorPart acc(context, group, obstacle);
  if (!acc.Collect()) return Status::Ok();
  const Node& node = c.node(group.anchors[0]);
  const Shape& shape = c.node(node.inputs[0]).shape;
  std::vector<int64_t> rows = DenseStrides(shape);
  rows.back() = 0;  // ranks move nothing
  std::vector<int64_t> walk = acc.Walk(rows);
  walk.push_back(1);
  acc.space().AddLoop(shape[shape.rank - 1], Role::kReduced);
  Part part;
  part.skeleton = Skeleton::kTopK;
  part.combine = node.As<ir::ReduceAttrs>().kind == ir::ReduceKind::kMax ? Combine::kMax : Combine::kMin;
  part.acc_type = TapeType::kI64;
  part.lhs = static_cast<uint16_t>(acc.AddRole(node.id, 0, "x", walk));
  if (!acc.Resolve()) return Status::Ok();
  acc.Arrange({Role::kN, Role::kReduced});
  // Ranks and places are counted along one loop each.
  const auto loops = [&](Role role) {
    int count = 0;
    for (int l = 0; l < acc.space().loops(); ++l) count += acc.space().role(l) == role;
    return count;
  };
  if (loops(Role::kReduced) != 1 || loops(Role::kN) != 1) {
    *obstacle = {true, node.id, loops(Role::kReduced) != 1 ? 0 : -1, ""};
    return Status::Ok();
  }
  part.epilogue = acc.Epilogue();
  return acc.builder().Finish(part, op);
}

}  // namespace rondo::fusion
