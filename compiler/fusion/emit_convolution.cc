// Convolutions and pools: the loops are fixed, [n, g, o, out..., c, kernel...]; padding is guards on the
// input.
#include <limits>
#include <optional>

#include "compiler/fusion/emit.h"

namespace rondo::fusion {

using ir::Node;
using ir::Op;
using ir::View;

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

}  // namespace

Status EmitConvolution(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  Context& c = *context;
  const Node& node = c.node(group.anchors[0]);
  Window w = WindowOf(c, node);
  int spatial = node.shape.rank - 2;

  // Storage strides of the input and the weight, one a dim: single-step views only.
  auto storage = [&](int slot) {
    NodeId input = node.inputs[slot];
    return ir::Compose(HomeOf(&c, c.base(input)).placement, c.graph.ViewOf(input));
  };
  for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
    if (!storage(static_cast<int>(slot)).affine()) {
      *obstacle = NeedsCopy(node.id, static_cast<int>(slot));
      return Status::Ok();
    }
  }
  const View input = storage(0);
  const ir::ViewStep& x = input.steps[0];

  IterationSpace space;
  PartBuilder builder(context, group.id, &space);
  // The domain is the accumulator's shape with its channels split into groups.
  std::vector<int64_t> walk = DenseStrides(node.shape);
  std::vector<int64_t> domain_walk = {walk[0], walk[1] * w.out_channels, walk[1]};
  space.AddLoop(node.shape[0], Role::kOuter);
  space.AddLoop(w.groups, Role::kM);
  space.AddLoop(w.out_channels, Role::kM);
  for (int a = 0; a < spatial; ++a) {
    space.AddLoop(node.shape[2 + a], Role::kN);
    domain_walk.push_back(walk[2 + a]);
  }
  builder.SetDomain(space.AddMap(ir::DenseView(node.shape), 0, domain_walk));
  builder.SetIntercept([&](TapeWriter* tape, NodeId id, const View&) -> std::optional<int> {
    if (id != node.id) return std::nullopt;
    return tape->Add(AccInst(NaturalType(node.dtype), 0));
  });
  View all = ir::Compose(ir::DenseView(SinkDomain(c, group)), ir::DenseView(node.shape));
  TapeWriter collected;
  StoreSink(c, group, all, &builder, &collected);
  int loops = space.loops();
  space.AddLoop(w.in_channels, Role::kReduced);
  for (int a = 0; a < spatial; ++a) space.AddLoop(w.kernel[a], Role::kReduced);

  // The input: plain in n and channels, guarded along the spatial axes.
  std::vector<int64_t> x_walk(static_cast<size_t>(space.loops()), 0);
  x_walk[0] = x.strides[0];
  x_walk[1] = x.strides[1] * w.in_channels;
  if (node.op == Op::kPool) x_walk[1] = x.strides[1];
  x_walk[loops] = node.op == Op::kPool ? 0 : x.strides[1];
  // Element numbers of the storage directly: a flat view of everything.
  auto flat = [](int64_t elements) {
    ir::ViewStep step;
    step.shape = Shape{elements};
    step.strides[0] = 1;
    return View{{step}};
  };
  constexpr int64_t kAll = int64_t{1} << 60;
  int x_map = space.AddMap(flat(kAll), x.offset, x_walk);
  builder.Blame(x_map, node.id, 0);
  Part part;
  part.skeleton = Skeleton::kConvolution;
  part.acc_type = NaturalType(node.dtype);
  part.tf32 = c.options.tf32 && node.op == Op::kConv && node.dtype == DType::kF32;
  part.lhs = static_cast<uint16_t>(builder.AddOperand(c.base(node.inputs[0]), Mode::kRead, x_map, "x"));
  std::vector<uint16_t> rhs;
  if (node.op == Op::kConv) {
    const View weights = storage(1);
    const ir::ViewStep& k = weights.steps[0];
    std::vector<int64_t> k_walk(static_cast<size_t>(space.loops()), 0);
    k_walk[1] = k.strides[0] * w.out_channels;
    k_walk[2] = k.strides[0];
    k_walk[loops] = k.strides[1];
    for (int a = 0; a < spatial; ++a) k_walk[loops + 1 + a] = k.strides[2 + a];
    int k_map = space.AddMap(flat(kAll), k.offset, k_walk);
    builder.Blame(k_map, node.id, 1);
    rhs.push_back(static_cast<uint16_t>(builder.AddOperand(c.base(node.inputs[1]), Mode::kRead, k_map, "w")));
    part.rhs = c.program.arena->Copy(rhs);
  } else {
    part.combine = node.As<ir::PoolAttrs>().kind;
  }
  int before = space.loops();
  if (builder.obstacle().found || !space.Resolve() || space.loops() != before) {
    // What the epilogue reads does not fit these loops: keep the convolution alone, or copy what it reads.
    *obstacle = NeedsCopy(node.id, group.nodes.size() > 1 ? -1 : 0);
    return Status::Ok();
  }
  std::vector<Guard> guards;
  std::vector<std::vector<int64_t>> guard_strides;
  for (int a = 0; a < spatial; ++a) {
    Guard guard;
    guard.stride = x.strides[2 + a];
    guard.offset = -w.pads[a];
    guard.extent = x.shape[2 + a];
    std::vector<int64_t> strides(static_cast<size_t>(space.loops()), 0);
    strides[3 + a] = w.strides[a];
    strides[loops + 1 + a] = w.dilations[a];
    guards.push_back(guard);
    guard_strides.push_back(strides);
  }
  double absent =
      part.combine == Combine::kMax && node.op == Op::kPool ? -std::numeric_limits<double>::infinity() : 0.0;
  builder.SetGuards(part.lhs, guards, guard_strides, absent);
  builder.BeginEmitting();
  TapeWriter tape;
  StoreSink(c, group, all, &builder, &tape);
  part.epilogue = builder.CopyTape(tape);
  return builder.Finish(part, op);
}

}  // namespace rondo::fusion
