// Collectives: one op that starts, one that waits, over elements one after another.
#include <algorithm>
#include <optional>

#include "compiler/fusion/emit_groups.h"

namespace rondo::fusion {

Status EmitCollective(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  const NodeId id = group.nodes[0];
  const ir::Node& node = context->node(id);
  const ir::CollectiveAttrs& attrs = node.As<ir::CollectiveAttrs>();
  const NodeId input = node.inputs[0];
  const Home from = HomeOf(context, context->base(input));
  const Home to = HomeOf(context, id);
  const ir::View read = ir::Compose(from.placement, context->graph.ViewOf(input));
  const int64_t elements = context->node(input).shape.elements();
  const std::optional<uint64_t> read_at = RunOffset(read, node.dtype),
                                write_at = RunOffset(to.placement, node.dtype);
  if (!read_at || !write_at) {
    *obstacle = {true, id, 0, "a collective reads elements one after another"};
    return Status::Ok();
  }
  const int64_t share = std::min(elements, node.shape.elements());  // the smaller side: SyncPoint::bytes
  op->kind = LoweredKind::kCollectiveStart;
  op->params = {{from.value, *read_at, Mode::kRead}, {to.value, *write_at, Mode::kWrite}};
  op->collective = static_cast<int>(context->program.collectives.size());
  context->program.collectives.push_back({attrs.op, node.dtype, share * ByteSize(node.dtype)});
  if (attrs.op == CollectiveOp::kAllReduce) op->in_place.push_back({1, 0});
  return Status::Ok();
}

LoweredOp WaitFor(const LoweredOp& start, int start_index) {
  LoweredOp wait = start;
  wait.kind = LoweredKind::kCollectiveWait;
  wait.deps = {start_index};
  wait.in_place.clear();
  return wait;
}

}  // namespace rondo::fusion
