// Convolutions and pools: the loops are fixed, [n, g, o, out..., c, kernel...]; padding is guards on the
// input.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "compiler/fusion/emit_groups.h"

namespace rondo::fusion {

namespace {

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
  int64_t groups = 1, out_channels = 1, in_channels = 1;  // channels are those of one group
};

Window WindowOf(const Context& c, const Node& node) {
  Window w;
  if (node.op == Op::kConv) {
    const ir::ConvAttrs& attrs = node.As<ir::ConvAttrs>();
    const Shape& weight = c.node(node.inputs[1]).shape;
    for (int d = 2; d < weight.rank; ++d) w.kernel.push_back(weight[d]);
    w.strides = attrs.strides;
    w.dilations = attrs.dilations;
    w.pads = attrs.pads_begin;
    w.groups = attrs.groups;
    w.out_channels = weight[0] / attrs.groups;
    w.in_channels = weight[1];
    return w;
  }
  const ir::PoolAttrs& attrs = node.As<ir::PoolAttrs>();
  w.kernel = attrs.kernel;
  w.strides = attrs.strides;
  w.dilations = attrs.dilations;
  w.pads = attrs.pads_begin;
  w.groups = node.shape[1];
  return w;
}

Obstacle NeedsCopy(NodeId reader, int slot) {
  Obstacle obstacle;
  obstacle.found = true;
  obstacle.reader = reader;
  obstacle.slot = slot;
  return obstacle;
}

// Emits one convolution or pool as a part. Loops: n, group, channel within the group, points; then, reduced,
// input channels and the window.
class ConvolutionEmission {
 public:
  ConvolutionEmission(Context* context, const Group& group)
      : c_(*context),
        group_(group),
        node_(context->node(group.anchors[0])),
        window_(WindowOf(*context, node_)),
        spatial_(node_.shape.rank - 2),
        builder_(context, group.id, &space_) {}

  Status Emit(LoweredOp* op, Obstacle* obstacle) {
    for (NodeId anchor : group_.anchors) {
      for (size_t slot = 0; slot < node_.inputs.size(); ++slot) {
        if (Storage(c_.node(anchor), slot).affine()) continue;
        *obstacle = NeedsCopy(anchor, static_cast<int>(slot));
        return Status::Ok();
      }
    }
    AddPoints();
    const View all = ir::Compose(ir::DenseView(SinkDomain(c_, group_)), ir::DenseView(node_.shape));
    TapeWriter collected;
    StoreSink(c_, group_, all, &builder_, &collected);
    AddWindow();
    Part part;
    part.skeleton = Skeleton::kConvolution;
    part.acc_type = NaturalType(node_.dtype);
    part.tf32 = node_.op == Op::kConv && c_.MayRoundToTf32(node_);
    part.lhs = ReadInput();
    if (node_.op == Op::kConv) {
      std::vector<uint16_t> weights;
      for (size_t j = 0; j < group_.anchors.size(); ++j) weights.push_back(ReadWeights(j));
      part.rhs = c_.program.arena->Copy(weights);
    } else {
      part.combine = node_.As<ir::PoolAttrs>().kind;
    }
    const int before = space_.loops();
    if (builder_.obstacle().found || !space_.Resolve() || space_.loops() != before) {
      // The epilogue's operands do not fit these loops: keeps the convolution alone, or copies its input.
      *obstacle = NeedsCopy(node_.id, group_.nodes.size() > 1 ? -1 : 0);
      return Status::Ok();
    }
    const bool lowest = part.combine == Combine::kMax && node_.op == Op::kPool;
    const double absent = node_.op == Op::kPool ? 0 : static_cast<double>(node_.As<ir::ConvAttrs>().absent);
    Guarded(part.lhs, lowest ? -std::numeric_limits<double>::infinity() : absent);
    builder_.BeginEmitting();
    TapeWriter tape;
    StoreSink(c_, group_, all, &builder_, &tape);
    part.epilogue = builder_.CopyTape(tape);
    return builder_.Finish(part, op);
  }

 private:
  // Storage strides of the input (slot 0) and the weight, one for each dim: single-step views only.
  View Storage(const Node& node, size_t slot) const {
    const NodeId input = node.inputs[slot];
    return ir::Compose(HomeOf(&c_, c_.base(input)).placement, c_.graph.ViewOf(input));
  }

  // Element numbers of the storage directly: a flat view of everything.
  static View Everything() {
    ir::ViewStep step;
    step.shape = Shape{int64_t{1} << 60};
    step.strides[0] = 1;
    return View{{step}};
  }

  // The domain: the accumulator's shape with its channels split into groups.
  void AddPoints() {
    const std::vector<int64_t> walk = DenseStrides(node_.shape);
    std::vector<int64_t> domain_walk = {walk[0], walk[1] * window_.out_channels, walk[1]};
    space_.AddLoop(node_.shape[0], Role::kOuter);
    space_.AddLoop(window_.groups, Role::kM);
    space_.AddLoop(window_.out_channels, Role::kM);
    for (int a = 0; a < spatial_; ++a) {
      space_.AddLoop(node_.shape[2 + a], Role::kN);
      domain_walk.push_back(walk[2 + a]);
    }
    builder_.SetDomain(space_.AddMap(ir::DenseView(node_.shape), 0, domain_walk));
    builder_.SetIntercept([this](TapeWriter* tape, NodeId id, const View&) -> std::optional<int> {
      const auto it = std::find(group_.anchors.begin(), group_.anchors.end(), id);
      if (it == group_.anchors.end()) return std::nullopt;
      return tape->Add(AccInst(NaturalType(node_.dtype), static_cast<int>(it - group_.anchors.begin())));
    });
  }

  void AddWindow() {
    reduced_ = space_.loops();
    space_.AddLoop(window_.in_channels, Role::kReduced);
    for (int a = 0; a < spatial_; ++a) space_.AddLoop(window_.kernel[a], Role::kReduced);
  }

  uint16_t Read(const Node& node, size_t slot, int64_t offset, const std::vector<int64_t>& walk,
                const std::string& key) {
    const int map = space_.AddMap(Everything(), offset, walk);
    builder_.Blame(map, node.id, static_cast<int>(slot));
    return static_cast<uint16_t>(builder_.AddOperand(c_.base(node.inputs[slot]), Mode::kRead, map, key));
  }

  // Plain in n and channels; Guarded adds the spatial axes.
  uint16_t ReadInput() {
    const View storage = Storage(node_, 0);
    const ir::ViewStep& x = storage.steps[0];
    const bool pool = node_.op == Op::kPool;
    std::vector<int64_t> walk(static_cast<size_t>(space_.loops()), 0);
    walk[0] = x.strides[0];
    walk[1] = pool ? x.strides[1] : x.strides[1] * window_.in_channels;
    walk[reduced_] = pool ? 0 : x.strides[1];
    return Read(node_, 0, x.offset, walk, "x");
  }

  // The weights of anchor `number`.
  uint16_t ReadWeights(size_t number) {
    const Node& anchor = c_.node(group_.anchors[number]);
    const View storage = Storage(anchor, 1);
    const ir::ViewStep& k = storage.steps[0];
    std::vector<int64_t> walk(static_cast<size_t>(space_.loops()), 0);
    walk[1] = k.strides[0] * window_.out_channels;
    walk[2] = k.strides[0];
    walk[reduced_] = k.strides[1];
    for (int a = 0; a < spatial_; ++a) walk[reduced_ + 1 + a] = k.strides[2 + a];
    return Read(anchor, 1, k.offset, walk, "w" + std::to_string(number));
  }

  // Along each spatial axis, the input is read in place, and has the value `absent` outside.
  void Guarded(uint16_t lhs, double absent) {
    const View storage = Storage(node_, 0);
    const ir::ViewStep& x = storage.steps[0];
    std::vector<Guard> guards;
    std::vector<std::vector<int64_t>> guard_strides;
    for (int a = 0; a < spatial_; ++a) {
      Guard guard;
      guard.stride = x.strides[2 + a];
      guard.offset = -window_.pads[a];
      guard.extent = x.shape[2 + a];
      std::vector<int64_t> strides(static_cast<size_t>(space_.loops()), 0);
      strides[3 + a] = window_.strides[a];
      strides[reduced_ + 1 + a] = window_.dilations[a];
      guards.push_back(guard);
      guard_strides.push_back(strides);
    }
    builder_.SetGuards(lhs, guards, guard_strides, absent);
  }

  Context& c_;
  const Group& group_;
  const Node& node_;
  const Window window_;
  const int spatial_;
  IterationSpace space_;
  PartEmitter builder_;
  int reduced_ = 0;  // the first loop of the window
};

}  // namespace

Status EmitConvolution(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  return ConvolutionEmission(context, group).Emit(op, obstacle);
}

}  // namespace rondo::fusion
