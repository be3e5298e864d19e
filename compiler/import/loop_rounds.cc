#include "compiler/import/loop_rounds.h"

#include <algorithm>

namespace rondo::importer {

bool RunAsLoop(OpContext& c, const onnx::GraphProto& body, Rounds* rounds) {
  if (rounds->trips <= c.host.longest_unrolled() || rounds->trips > kMaxRounds) return false;
  for (const Value& v : rounds->carried) {
    if (v.is_sequence || v.node == kNoNode) return false;
  }
  const NodeId times = rounds->counted ? c.b.Iota({rounds->trips}, 0) : kNoNode;
  ir::LoopMaker maker(&c.b, rounds->trips);
  std::vector<Value> inputs;
  const auto give = [&](NodeId node) { inputs.push_back(Value{node, false, {}}); };
  if (rounds->counted) {
    give(maker.Row(times, false));
    give(c.b.Ints(DType::kBool, Shape{}, {1}));
  }
  for (const Value& v : rounds->carried) give(maker.Carried(v.node));
  for (const auto& s : rounds->scanned) give(maker.Row(s.node, s.backward));
  Result<std::vector<Value>> out = c.host.RunSubgraph(body, inputs);
  const size_t first = rounds->counted ? 1 : 0, carried = rounds->carried.size();
  if (!out.ok() || out->size() != first + carried + rounds->backward.size()) return false;
  if (rounds->counted) {
    Result<bool> go = ConstantCondition(c, (*out)[0]);
    if (!go.ok() || !*go) return false;
  }
  std::vector<NodeId> next, last;
  std::vector<ir::LoopMaker::Rows> rows;
  for (size_t i = first; i < out->size(); ++i) {
    const Value& v = (*out)[i];
    if (v.is_sequence || v.node == kNoNode) return false;
    if (i < first + carried) next.push_back(v.node);
    if (i >= first + carried) rows.push_back({v.node, rounds->backward[i - first - carried]});
  }
  if (!maker.Finish(next, rows, &last, &rounds->stacked)) return false;
  for (size_t i = 0; i < carried; ++i) rounds->carried[i] = Value{last[i], false, {}};
  return true;
}

Result<bool> ConstantCondition(const OpContext& c, const Value& value) {
  if (value.is_sequence || value.node == kNoNode || c.b.dtype(value.node) != DType::kBool ||
      c.b.shape(value.node).elements() != 1) {
    return Status::Error(Code::kCorrupt, "its condition is not one bool");
  }
  auto data = c.Known(value.node);
  if (!data.ok()) return data.status().At("its condition");
  return (*data)->bytes[0] != 0;
}

Result<NodeId> Stack(OpContext& c, const std::vector<NodeId>& parts, int axis, bool reversed) {
  std::vector<NodeId> list;
  for (NodeId p : parts) {
    const Shape& shape = c.b.shape(p);
    if (shape.rank >= kMaxRank || !(shape == c.b.shape(parts[0])) || c.b.dtype(p) != c.b.dtype(parts[0])) {
      return Status::Error(Code::kUnsupported, "an output whose shape differs between iterations");
    }
    if (axis > shape.rank) return Status::Error(Code::kCorrupt, "axis %d is out of range", axis);
    list.push_back(c.b.Unsqueeze(p, axis));
  }
  if (reversed) std::reverse(list.begin(), list.end());
  return c.b.Concat(list, axis);
}

}  // namespace rondo::importer
