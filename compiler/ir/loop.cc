#include "compiler/ir/loop.h"

#include <algorithm>

namespace rondo::ir {

Shape LoopInfo::ResultShape(size_t output) const {
  const Shape& own = body.node(body.outputs[output].node).shape;
  if (!outputs[output].rows) return own;
  Shape shape;
  shape.rank = own.rank + 1;
  shape[0] = trips;
  for (int d = 0; d < own.rank; ++d) shape[d + 1] = own[d];
  return shape;
}

int64_t LoopInfo::ResultBytes(size_t output) const {
  return ResultShape(output).elements() * ByteSize(body.node(body.outputs[output].node).dtype);
}

int64_t LoopInfo::ResultOffset(size_t output) const {
  int64_t offset = 0;
  for (size_t k = 0; k < output; ++k) offset += ResultBytes(k);
  return offset;
}

Status ForEachBody(Graph* graph, const std::function<Status(Graph*)>& visit) {
  for (NodeId id = 0; id < graph->size(); ++id) {
    if (graph->node(id).dead || graph->node(id).op != Op::kLoop) continue;
    const std::shared_ptr<const LoopInfo> before = graph->node(id).As<LoopAttrs>().info;
    auto info = std::make_shared<LoopInfo>(*before);
    RONDO_RETURN_IF_ERROR(visit(&info->body));
    for (NodeId other = 0; other < graph->size(); ++other) {
      Node& node = graph->node(other);
      if (node.op == Op::kLoop || node.op == Op::kLoopResult) {
        LoopAttrs& attrs = node.As<LoopAttrs>();
        if (attrs.info == before) attrs.info = info;
      }
    }
  }
  return Status::Ok();
}

LoopMaker::LoopMaker(Builder* builder, int64_t trips)
    : b_(*builder),
      before_(*builder),
      first_node_(builder->graph().size()),
      info_(std::make_shared<LoopInfo>()) {
  info_->trips = trips;
  info_->body.name = "body";
}

NodeId LoopMaker::Placeholder(NodeId given, const Shape& shape, LoopInput how) {
  Node node;
  node.op = Op::kInput;
  node.dtype = b_.dtype(given);
  node.shape = shape;
  node.attrs = InputAttrs{-1};
  inputs_.push_back({given, b_.graph().Add(std::move(node)), how});
  return inputs_.back().placeholder;
}

NodeId LoopMaker::Carried(NodeId first) {
  return Placeholder(first, b_.shape(first), {LoopInputKind::kCarried, false, 0});
}

NodeId LoopMaker::Row(NodeId rows, bool backward) {
  const Shape whole = b_.shape(rows);
  Shape shape;
  shape.rank = whole.rank - 1;
  for (int d = 0; d < shape.rank; ++d) shape[d] = whole[d + 1];
  return Placeholder(rows, shape, {LoopInputKind::kRow, backward, 0});
}

// Marks nodes that depend on a placeholder or have effects. Returns false if no loop body may hold one of
// them.
bool LoopMaker::FindInside() {
  Graph& g = b_.graph();
  bool plain = true;
  inside_.assign(static_cast<size_t>(g.size() - first_node_), false);
  for (const Input& input : inputs_) inside_[static_cast<size_t>(input.placeholder - first_node_)] = true;
  for (NodeId id = first_node_; id < g.size(); ++id) {
    const Node& node = g.node(id);
    const bool effects = node.op == Op::kCollective || node.op == Op::kCall || node.op == Op::kCallResult ||
                         !node.weak_after.empty() || !node.strong_after.empty();
    bool inside = effects || inside_[static_cast<size_t>(id - first_node_)];
    for (NodeId in : node.inputs) {
      inside = inside || (in >= first_node_ && inside_[static_cast<size_t>(in - first_node_)]);
    }
    inside_[static_cast<size_t>(id - first_node_)] = inside;
    plain = plain && !effects && !(inside && (node.op == Op::kLoop || node.annotations.count("graph") > 0));
  }
  return plain;
}

bool LoopMaker::Fits(const std::vector<NodeId>& next, const std::vector<Rows>& rows) const {
  const Graph& g = b_.graph();
  size_t carried = 0;
  for (const Input& input : inputs_) {
    if (input.how.kind != LoopInputKind::kCarried) continue;
    const Node &from = g.node(input.given), &to = g.node(next[carried++]);
    if (!(from.shape == to.shape) || from.dtype != to.dtype || from.shape.elements() == 0) return false;
  }
  return std::all_of(rows.begin(), rows.end(), [&](const Rows& r) {
    return g.node(r.node).shape.rank < kMaxRank && g.node(r.node).shape.elements() > 0;
  });
}

LoopMaker::~LoopMaker() {
  if (finished_) return;
  FindInside();
  Graph& g = b_.graph();
  for (NodeId id = first_node_; id < g.size(); ++id) {
    if (inside_[static_cast<size_t>(id - first_node_)]) g.node(id).dead = true;
  }
  b_ = before_;
}

NodeId LoopMaker::Copied(NodeId id) {
  Node copy = b_.graph().node(id);
  for (NodeId& in : copy.inputs) in = Inside(in);
  copies_[static_cast<size_t>(id)] = info_->body.Add(std::move(copy));
  return copies_[static_cast<size_t>(id)];
}

// The body's counterpart of a node: its own copy, or an input with the same value in every round. Constants
// and views of outside nodes are copied.
NodeId LoopMaker::Inside(NodeId id) {
  if (copies_[static_cast<size_t>(id)] != kNoNode) return copies_[static_cast<size_t>(id)];
  const Node& node = b_.graph().node(id);
  if (node.op == Op::kConstant || node.op == Op::kView || node.op == Op::kIota) return Copied(id);
  inputs_.push_back({id, id, {LoopInputKind::kWhole, false, 0}});
  Node input;
  input.op = Op::kInput;
  input.dtype = node.dtype;
  input.shape = node.shape;
  input.sources = node.sources;
  return copies_[static_cast<size_t>(id)] = info_->body.Add(std::move(input));
}

void LoopMaker::Output(NodeId id, LoopOutput how) {
  info_->body.outputs.push_back({"", Inside(id)});
  info_->outputs.push_back(how);
}

bool LoopMaker::Finish(const std::vector<NodeId>& next, const std::vector<Rows>& rows,
                       std::vector<NodeId>* last, std::vector<NodeId>* all) {
  Graph& g = b_.graph();
  if (!FindInside() || !Fits(next, rows)) return false;
  copies_.assign(static_cast<size_t>(g.size()), kNoNode);
  const size_t known = inputs_.size();
  for (size_t i = 0; i < known; ++i) Copied(inputs_[i].placeholder);
  for (NodeId id = first_node_; id < static_cast<NodeId>(copies_.size()); ++id) {
    if (inside_[static_cast<size_t>(id - first_node_)] && copies_[static_cast<size_t>(id)] == kNoNode)
      Copied(id);
  }
  // Outputs that are rows of every round, if carried too, are passed on from there.
  for (const Rows& r : rows) Output(r.node, {true, r.backward});
  size_t carried = 0;
  for (size_t i = 0; i < known; ++i) {
    if (inputs_[i].how.kind != LoopInputKind::kCarried) continue;
    const NodeId node = next[carried++];
    size_t output = 0;
    while (output < rows.size() && rows[output].node != node) ++output;
    if (output == rows.size()) {
      output = info_->outputs.size();
      Output(node, {});
    }
    inputs_[i].how.next = output;
  }
  Node loop;
  loop.op = Op::kLoop;
  loop.dtype = DType::kU8;
  for (const Input& input : inputs_) {
    const NodeId node = copies_[static_cast<size_t>(input.placeholder)];
    info_->body.node(node).attrs = InputAttrs{static_cast<int>(info_->inputs.size())};
    info_->body.inputs.push_back({"", node});
    info_->inputs.push_back(input.how);
    loop.inputs.push_back(input.given);
  }
  info_->body.RemoveDead();
  loop.shape = Shape{info_->ResultOffset(info_->outputs.size())};
  loop.attrs = LoopAttrs{info_, 0};
  loop.sources = b_.sources();
  loop.annotations = b_.annotations();
  const NodeId run = g.Add(std::move(loop));
  std::vector<NodeId> results;
  for (size_t k = 0; k < info_->outputs.size(); ++k) {
    Node result;
    result.op = Op::kLoopResult;
    result.dtype = info_->body.node(info_->body.outputs[k].node).dtype;
    result.shape = info_->ResultShape(k);
    result.attrs = LoopAttrs{info_, static_cast<uint32_t>(k)};
    result.inputs = {run};
    result.sources = b_.sources();
    result.annotations = b_.annotations();
    results.push_back(g.Add(std::move(result)));
  }
  all->assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(rows.size()));
  for (size_t i = 0; i < known; ++i) {
    if (inputs_[i].how.kind != LoopInputKind::kCarried) continue;
    const LoopOutput& from = info_->outputs[inputs_[i].how.next];
    const NodeId result = results[inputs_[i].how.next];
    const int64_t row = from.backward ? 0 : info_->trips - 1;
    last->push_back(from.rows ? b_.Squeeze(b_.Slice(result, 0, row, 1, 1), 0) : result);
  }
  for (NodeId id = first_node_; id < run; ++id) {
    if (inside_[static_cast<size_t>(id - first_node_)]) g.node(id).dead = true;
  }
  return finished_ = true;
}

}  // namespace rondo::ir
