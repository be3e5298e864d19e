// Collectives: one op that starts, one that waits, over dense memory.
#include <algorithm>

#include "compiler/fusion/emit_groups.h"

namespace rondo::fusion {

Status EmitCollective(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  const NodeId id = group.nodes[0];
  const ir::Node& node = context->node(id);
  const ir::CollectiveAttrs& attrs = node.As<ir::CollectiveAttrs>();
  op->kind = LoweredKind::kCollectiveStart;
  op->collective = static_cast<int>(context->program.collectives.size());
  if (node.inputs.empty()) {  // the receiver of a send
    const int value = HomeOf(context, id).value;
    op->params = {{value, 0, Mode::kWrite}, {value, 0, Mode::kWrite}};
    context->program.collectives.push_back(
        {attrs.op, node.dtype, node.shape.elements() * ByteSize(node.dtype), attrs.group});
    return Status::Ok();
  }
  const NodeId input = node.inputs[0];
  const Home from = HomeOf(context, context->base(input));
  const ir::View read = ir::Compose(from.placement, context->graph.ViewOf(input));
  const int64_t elements = context->node(input).shape.elements();
  if (!ir::IsDense(read, elements)) {
    *obstacle = {true, id, 0, "a collective reads dense memory"};
    return Status::Ok();
  }
  const bool sends = attrs.op == CollectiveOp::kSend;
  // The smaller side: SyncPoint::bytes.
  const int64_t share = sends ? elements : std::min(elements, node.shape.elements());
  op->params = {{from.value, 0, Mode::kRead}, {from.value, 0, Mode::kRead}};
  if (!sends) op->params[1] = {HomeOf(context, id).value, 0, Mode::kWrite};
  context->program.collectives.push_back({attrs.op, node.dtype, share * ByteSize(node.dtype), attrs.group});
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
