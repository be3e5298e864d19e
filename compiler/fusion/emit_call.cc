// Calls of custom ops: one op over contiguous elements.
#include <optional>

#include "compiler/fusion/emit_groups.h"

namespace rondo::fusion {
namespace {

// The node of output `output` of `call`; kNoNode if nothing needs it.
NodeId ResultOf(const Context& context, const Group& group, uint32_t output) {
  for (NodeId id : group.nodes) {
    if (context.node(id).As<ir::CallAttrs>().output == output) return id;
  }
  return ir::kNoNode;
}

// Memory for an output that nothing reads.
int UnusedOutput(Context* context, const CustomArgument& type) {
  LoweredValue value;
  value.dtype = type.dtype;
  value.shape = type.shape;
  value.bytes = static_cast<int64_t>(BytesOf(type));
  context->program.values.push_back(std::move(value));
  return static_cast<int>(context->program.values.size()) - 1;
}

}  // namespace

Status EmitCall(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  const NodeId id = group.nodes[0];
  const ir::Node& node = context->node(id);
  const std::shared_ptr<const ir::CallInfo> info = node.As<ir::CallAttrs>().info;
  op->kind = LoweredKind::kCall;
  op->call = info;
  for (uint32_t i = 0; i < info->op.num_inputs; ++i) {
    const CustomArgument& argument = info->op.arguments[i];
    if (argument.absent) continue;
    const size_t slot = info->SlotOf(i);
    const NodeId input = node.inputs[slot];
    const Home from = HomeOf(context, context->base(input));
    const ir::View read = ir::Compose(from.placement, context->graph.ViewOf(input));
    const std::optional<uint64_t> at = RunOffset(read, argument.dtype);
    if (!at) {
      *obstacle = {true, id, static_cast<int>(slot), "a custom op reads elements one after another"};
      return Status::Ok();
    }
    op->params.push_back({from.value, *at, argument.mode});
  }
  for (uint32_t i = 0; i < info->num_outputs(); ++i) {
    if (info->output(i).alias != kNone) continue;
    const NodeId result = ResultOf(*context, group, i);
    if (result == ir::kNoNode) {
      op->params.push_back({UnusedOutput(context, info->output(i)), 0, Mode::kWrite});
      continue;
    }
    const Home to = HomeOf(context, result);
    const std::optional<uint64_t> at = RunOffset(to.placement, info->output(i).dtype);
    if (!at) return Status::Error(Code::kInternal, "output %u of a custom op has no run of memory", i);
    op->params.push_back({to.value, *at, Mode::kWrite});
  }
  return Status::Ok();
}

}  // namespace rondo::fusion
