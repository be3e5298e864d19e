// Collectives: one op that starts and one that waits, over contiguous elements.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "compiler/fusion/emit_groups.h"
#include "compiler/ir/node_annotation.h"

namespace rondo::fusion {

namespace {

// The collective, as chunks of rows (shard/cut_rows.h) have left it.
LoweredCollective CollectiveOf(const ir::Node& node, int64_t elements) {
  const ir::CollectiveAttrs& attrs = node.As<ir::CollectiveAttrs>();
  LoweredCollective collective{attrs.op, node.dtype, elements * ByteSize(node.dtype), attrs.group};
  const auto chunk = node.annotations.find(kChunkKey), whole = node.annotations.find(kWholeKey);
  if (chunk != node.annotations.end())
    std::sscanf(chunk->second.c_str(), "%u of %u", &collective.chunk, &collective.chunks);
  if (whole != node.annotations.end()) collective.whole_because = whole->second;
  return collective;
}

}  // namespace

Status EmitCollective(Context* context, const Group& group, LoweredOp* op, Obstacle* obstacle) {
  const NodeId id = group.nodes[0];
  const ir::Node& node = context->node(id);
  const ir::CollectiveAttrs& attrs = node.As<ir::CollectiveAttrs>();
  op->kind = LoweredKind::kCollectiveStart;
  op->collective = static_cast<int>(context->program.collectives.size());
  const bool sends = attrs.op == CollectiveOp::kSend && !node.inputs.empty();  // has nothing to read
  std::optional<uint64_t> write_at;
  LoweredBinding write = {-1, 0, Mode::kWrite};
  if (!sends) {
    const Home to = HomeOf(context, id);
    write_at = RunOffset(to.placement, node.dtype);
    write = {to.value, write_at.value_or(0), Mode::kWrite};
  }
  const int64_t made = node.shape.elements();
  if (node.inputs.empty()) {  // the receiver of a send
    op->params = {write, write};
    context->program.collectives.push_back(CollectiveOf(node, made));
    return Status::Ok();
  }
  const NodeId input = node.inputs[0];
  const Home from = HomeOf(context, context->base(input));
  const ir::View read = ir::Compose(from.placement, context->graph.ViewOf(input));
  const std::optional<uint64_t> read_at = RunOffset(read, node.dtype);
  if (!read_at || (!sends && !write_at)) {
    *obstacle = {true, id, 0, "a collective reads and writes elements one after another"};
    return Status::Ok();
  }
  const int64_t elements = context->node(input).shape.elements();
  const int64_t share = sends ? elements : std::min(elements, made);  // the smaller side: SyncPoint::bytes
  const LoweredBinding source = {from.value, *read_at, Mode::kRead};
  op->params = {source, sends ? source : write};
  context->program.collectives.push_back(CollectiveOf(node, share));
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
