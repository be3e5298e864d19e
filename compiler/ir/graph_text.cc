// Graph as text (Dump) and its rules (Validate).
#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "compiler/ir/graph.h"
#include "compiler/ir/loop.h"
#include "core/status.h"

namespace rondo::ir {

namespace {

std::string Text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string Text(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return text;
}

std::string ShapeText(const Shape& shape) {
  char text[160];
  return Format(shape, text, sizeof(text));
}

std::string AttrText(const Node& n) {
  static constexpr const char* kReduceNames[] = {"sum", "prod", "max", "min", "argmax", "argmin"};
  switch (n.op) {
    case Op::kInput: return Text("#%d", n.As<InputAttrs>().index);
    case Op::kConstant: {
      const ConstantData& data = *n.As<ConstantAttrs>().data;
      return data.synthetic ? "synthetic " + data.name : data.name;
    }
    case Op::kView: return ToString(n.As<ViewAttrs>().view);
    case Op::kPointwise: return Name(n.As<PointwiseAttrs>().op);
    case Op::kIota: return Text("axis %d", n.As<IotaAttrs>().axis);
    case Op::kReduce: {
      std::string out = kReduceNames[static_cast<int>(n.As<ReduceAttrs>().kind)];
      for (int axis : n.As<ReduceAttrs>().axes) out += Text(" %d", axis);
      return out;
    }
    case Op::kConcat: return Text("axis %d", n.As<ConcatAttrs>().axis);
    case Op::kIndexedRead:
    case Op::kIndexedWrite: {
      const IndexedAttrs& a = n.As<IndexedAttrs>();
      std::string out = "map " + ToString(a.map);
      for (const IndexedDim& d : a.dims) out += Text(" index %ld of %ld", d.stride, d.extent);
      if (a.combine != ScatterCombine::kNone) out += Text(" combine %d", static_cast<int>(a.combine));
      return out + (n.op == Op::kIndexedWrite && !a.may_collide ? " no collisions" : "");
    }
    case Op::kAttention: {
      const AttentionAttrs& a = n.As<AttentionAttrs>();
      return Text("scale %.9g", a.scale) + (a.softcap != 0 ? Text(" softcap %.9g", a.softcap) : "") +
             (a.has_mask ? " mask" : "") + (a.has_limit ? " limit" : "") +
             (a.nan_to_zero ? " nan_to_zero" : "");
    }
    case Op::kCollective: {
      const CollectiveAttrs& a = n.As<CollectiveAttrs>();
      return Text("%s of %ld", rondo::Name(a.op), a.devices);
    }
    case Op::kCall:
    case Op::kCallResult: {
      const CallAttrs& a = n.As<CallAttrs>();
      const std::string name = std::string(a.info->op.domain) + "." + std::string(a.info->op.name);
      return name + Text(" output %u", a.output) + (a.info->IsVersion(a.output) ? " in place" : "");
    }
    case Op::kLoop: {
      const LoopInfo& loop = *n.As<LoopAttrs>().info;
      std::string out = Text("%ld rounds;", loop.trips);
      for (size_t k = 0; k < loop.inputs.size(); ++k) {
        const LoopInput& in = loop.inputs[k];
        if (in.kind == LoopInputKind::kCarried) out += Text(" input %zu: output %zu,", k, in.next);
        if (in.kind == LoopInputKind::kRow)
          out += Text(" input %zu: rows%s,", k, in.backward ? " backward" : "");
      }
      for (size_t k = 0; k < loop.outputs.size(); ++k) {
        const LoopOutput& o = loop.outputs[k];
        if (o.rows) out += Text(" output %zu: rows%s,", k, o.backward ? " backward" : "");
      }
      out.pop_back();
      return out;
    }
    case Op::kLoopResult: return Text("output %u", n.As<LoopAttrs>().output);
    default: return "";
  }
}

std::string Ids(const std::vector<NodeId>& ids) {
  std::string out;
  for (NodeId id : ids) out += (out.empty() ? "%" : ", %") + std::to_string(id);
  return out;
}

std::string CheckLoop(const LoopInfo& loop, const Graph& g, const Node& n) {
  const size_t inputs = loop.inputs.size(), outputs = loop.outputs.size();
  if (loop.trips < 1 || loop.body.inputs.size() != inputs || loop.body.outputs.size() != outputs ||
      n.inputs.size() != inputs) {
    return "does not fit its body";
  }
  if (std::string broken = Validate(loop.body); !broken.empty()) return "has a body in which " + broken;
  for (size_t k = 0; k < inputs; ++k) {
    const Node &given = g.node(n.inputs[k]), &taken = loop.body.node(loop.body.inputs[k].node);
    const LoopInput& how = loop.inputs[k];
    const int64_t times = how.kind == LoopInputKind::kRow ? loop.trips : 1;
    if (given.dtype != taken.dtype || given.shape.elements() != times * taken.shape.elements())
      return Text("is given what does not fit input %zu of its body", k);
    if (how.kind != LoopInputKind::kCarried) continue;
    if (how.next >= outputs) return Text("hands on an output for input %zu that its body has not", k);
    const Node& next = loop.body.node(loop.body.outputs[how.next].node);
    if (next.dtype != taken.dtype || !(next.shape == taken.shape))
      return Text("hands on what does not fit input %zu", k);
  }
  for (size_t k = 0; k < outputs; ++k) {
    const auto taken = std::count_if(loop.inputs.begin(), loop.inputs.end(), [&](const LoopInput& in) {
      return in.kind == LoopInputKind::kCarried && in.next == k;
    });
    if (!loop.outputs[k].rows && taken != 1) return Text("has an output %zu that %ld inputs take", k, taken);
  }
  return "";
}

// The rule that `n` breaks, or "".
std::string CheckShapes(const Graph& g, const Node& n) {
  auto in = [&](size_t k) -> const Node& { return g.node(n.inputs[k]); };
  size_t count = n.inputs.size();
  switch (n.op) {
    case Op::kInput:
    case Op::kIota: return count == 0 ? "" : "takes no inputs";
    case Op::kConstant: {
      const auto& data = n.As<ConstantAttrs>().data;
      if (!data) return "has no data";
      if (!(data->shape == n.shape) || data->dtype != n.dtype)
        return "differs from its data in shape or dtype";
      if (!data->synthetic && static_cast<int64_t>(data->bytes.size()) != data->byte_size()) {
        return "has too few or too many bytes";
      }
      return "";
    }
    case Op::kView:
      if (count != 1) return "takes one input";
      if (in(0).op == Op::kView) return "is a view over a view";
      if (in(0).dtype != n.dtype) return "changes the dtype";
      if (n.As<ViewAttrs>().view.steps.empty()) return "has an empty view";
      return n.As<ViewAttrs>().view.shape() == n.shape ? "" : "differs from its view in shape";
    case Op::kPointwise:
      if (count < 1 || count > 3) return "takes one to three inputs";
      for (size_t k = 0; k < count; ++k) {
        if (!(in(k).shape == n.shape)) return Text("has another shape than its input %zu", k);
      }
      return "";
    case Op::kReduce: {
      if (count != 1 || in(0).shape.rank != n.shape.rank) return "must keep the rank of its one input";
      Shape expected = in(0).shape;
      for (int axis : n.As<ReduceAttrs>().axes) {
        if (axis < 0 || axis >= expected.rank) return Text("reduces axis %d", axis);
        expected[axis] = 1;
      }
      return expected == n.shape ? "" : "has a wrong shape";
    }
    case Op::kMatMul: {
      if (count != 2) return "takes two inputs";
      const Shape &a = in(0).shape, &b = in(1).shape;
      int r = n.shape.rank;
      if (r < 2 || a.rank != r || b.rank != r) return "has inputs of another rank";
      bool fits = a[r - 1] == b[r - 2] && n.shape[r - 2] == a[r - 2] && n.shape[r - 1] == b[r - 1];
      for (int d = 0; d < r - 2; ++d) fits = fits && a[d] == n.shape[d] && b[d] == n.shape[d];
      return fits ? "" : "has shapes that do not fit";
    }
    case Op::kIndexedRead:
    case Op::kIndexedWrite: {
      const IndexedAttrs& a = n.As<IndexedAttrs>();
      size_t first = n.op == Op::kIndexedRead ? 1 : 2;
      if (count != first + a.dims.size()) return "has another number of indices than its attributes";
      const Shape& s = n.op == Op::kIndexedRead ? n.shape : in(1).shape;
      if (!(a.map.shape() == s)) return "has a map of another shape";
      for (size_t k = first; k < count; ++k) {
        if (!(in(k).shape == s)) return Text("has another shape than its input %zu", k);
      }
      if (n.op == Op::kIndexedWrite && !(in(0).shape == n.shape)) return "has another shape than its data";
      return in(0).dtype == n.dtype ? "" : "changes the dtype";
    }
    case Op::kConcat: {
      int axis = n.As<ConcatAttrs>().axis;
      if (count == 0 || axis < 0 || axis >= n.shape.rank) return "has no inputs or no such axis";
      int64_t total = 0;
      for (size_t k = 0; k < count; ++k) {
        Shape s = in(k).shape;
        if (s.rank != n.shape.rank) return Text("has another rank than its input %zu", k);
        total += s[axis];
        s[axis] = n.shape[axis];
        if (!(s == n.shape)) return Text("does not fit its input %zu", k);
        if (in(k).dtype != n.dtype) return "changes the dtype";
      }
      return total == n.shape[axis] ? "" : "has a wrong extent along its axis";
    }
    case Op::kAttention: {
      const AttentionAttrs& a = n.As<AttentionAttrs>();
      if (count != 3u + (a.has_mask ? 1 : 0) + (a.has_limit ? 1 : 0)) return "has a wrong number of inputs";
      const Shape &q = in(0).shape, &k = in(1).shape, &v = in(2).shape;
      if (q.rank != 4 || k.rank != 4 || v.rank != 4) return "needs q, k and v of rank 4";
      if (k[1] == 0 || q[1] % k[1] != 0) return "has heads that do not divide";
      bool fits = q[0] == k[0] && q[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3] &&
                  n.shape == Shape({q[0], q[1], q[2], v[3]});
      if (a.has_mask) fits = fits && in(3).shape == Shape({q[0], q[1], q[2], k[2]});
      if (a.has_limit) fits = fits && in(count - 1).shape == Shape({q[0], q[1], q[2]});
      return fits ? "" : "has shapes that do not fit";
    }
    case Op::kCollective: {
      const CollectiveAttrs& a = n.As<CollectiveAttrs>();
      if (count != 1) return "takes one input";
      const Shape whole = a.op == CollectiveOp::kReduceScatter ? in(0).shape : n.shape;
      const Shape share = a.op == CollectiveOp::kReduceScatter ? n.shape : in(0).shape;
      if (in(0).dtype != n.dtype) return "changes the dtype";
      if (a.op == CollectiveOp::kAllReduce || a.op == CollectiveOp::kBroadcast) {
        return whole == share ? "" : "changes the shape";
      }
      bool fits = whole.rank == share.rank + 1 && whole[0] == a.devices;
      for (int d = 0; fits && d < share.rank; ++d) fits = whole[d + 1] == share[d];
      return fits ? "" : "has a shape that does not fit its devices";
    }
    case Op::kCall: {
      const CallInfo& info = *n.As<CallAttrs>().info;
      size_t slot = 0;
      for (uint32_t i = 0; i < info.op.num_inputs; ++i) {
        const CustomArgument& a = info.op.arguments[i];
        if (a.absent) continue;
        if (slot >= count || !(in(slot).shape == a.shape) || in(slot).dtype != a.dtype) {
          return Text("does not fit argument %u of its op", i);
        }
        ++slot;
      }
      return slot == count ? "" : "has more inputs than its op";
    }
    case Op::kCallResult: {
      const CallAttrs& a = n.As<CallAttrs>();
      if (count != 1 || in(0).op != Op::kCall) return "takes one call";
      if (in(0).As<CallAttrs>().info != a.info || a.output >= a.info->num_outputs())
        return "is of another call";
      const CustomArgument& output = a.info->output(a.output);
      return n.shape == output.shape && n.dtype == output.dtype ? "" : "differs from its op's output";
    }
    case Op::kLoop: return CheckLoop(*n.As<LoopAttrs>().info, g, n);
    case Op::kLoopResult: {
      const LoopAttrs& a = n.As<LoopAttrs>();
      if (count != 1 || in(0).op != Op::kLoop) return "takes one loop";
      if (in(0).As<LoopAttrs>().info != a.info || a.output >= a.info->outputs.size())
        return "is of another loop";
      const bool fits = n.shape == a.info->ResultShape(a.output) &&
                        n.dtype == a.info->body.node(a.info->body.outputs[a.output].node).dtype;
      return fits ? "" : "differs from its loop's output";
    }
    case Op::kConv: return count == 2 ? "" : "takes two inputs";
    case Op::kPool: return count == 1 ? "" : "takes one input";
  }
  return "";
}

}  // namespace

const char* Name(Op op) {
  static constexpr const char* kNames[] = {
      "input",     "constant",   "view", "pointwise",    "iota",          "reduce",
      "matmul",    "conv",       "pool", "indexed_read", "indexed_write", "concat",
      "attention", "collective", "call", "call_result",  "loop",          "loop_result"};
  return kNames[static_cast<int>(op)];
}

std::string Dump(const Graph& graph) {
  std::string out = "graph " + graph.name + "\n";
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.dead) continue;
    out += Text("%%%d = %s %s%s", n.id, Name(n.op), Name(n.dtype), ShapeText(n.shape).c_str());
    if (std::string attrs = AttrText(n); !attrs.empty()) out += " {" + attrs + "}";
    out += " (" + Ids(n.inputs) + ")";
    if (!n.weak_after.empty()) out += " weak after " + Ids(n.weak_after);
    if (!n.strong_after.empty()) out += " strong after " + Ids(n.strong_after);
    if (!n.name.empty()) out += " \"" + n.name + "\"";
    for (const auto& [key, value] : n.annotations) out += " @" + key + "=" + value;
    if (!n.sources.empty()) out += "  ; " + n.sources[0];
    if (n.sources.size() > 1) out += Text(" and %zu more", n.sources.size() - 1);
    out += "\n";
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (!n.dead && n.op == Op::kLoop) out += Text("body of %%%d: ", id) + Dump(n.As<LoopAttrs>().info->body);
  }
  for (const GraphInput& in : graph.inputs) out += "input " + in.name + " = " + Ids({in.node}) + "\n";
  for (const GraphOutput& o : graph.outputs) out += "output " + o.name + " = " + Ids({o.node}) + "\n";
  for (const StatePair& s : graph.states) {
    out += "state " + graph.inputs[static_cast<size_t>(s.input)].name + " -> " +
           graph.outputs[static_cast<size_t>(s.output)].name + "\n";
  }
  return out;
}

// The rule that live node number `id` breaks, or "".
static std::string CheckNode(const Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.id != id) return "has another id than its place";
  for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
    for (NodeId in : *list) {
      if (in < 0 || in >= graph.size() || graph.node(in).dead)
        return Text("names node %%%d, which is dead or does not exist", in);
    }
  }
  return CheckShapes(graph, n);
}

std::string Validate(const Graph& graph) {
  const auto valid = [&](NodeId id) { return id >= 0 && id < graph.size() && !graph.node(id).dead; };
  bool in_order = true;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.dead) continue;
    const std::string broken = CheckNode(graph, id);
    if (broken.empty()) {
      in_order = in_order && graph.ComesAfterAll(n);
      continue;
    }
    const std::string from = n.sources.empty() ? "" : " from " + n.sources[0];
    return Text("node %%%d (%s)", id, Name(n.op)) + from + " " + broken;
  }
  for (const GraphOutput& out : graph.outputs) {
    if (!valid(out.node)) return "output " + out.name + " names a dead node";
  }
  for (const GraphInput& in : graph.inputs) {
    if (!valid(in.node) || graph.node(in.node).op != Op::kInput)
      return "input " + in.name + " is no input node";
  }
  if (!in_order && graph.TopologicalOrder().empty()) return "the graph has a cycle";
  return "";
}

}  // namespace rondo::ir
