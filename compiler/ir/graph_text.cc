// Graph as text (Dump).
#include <cstdarg>
#include <cstdio>

#include "compiler/ir/graph.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/text.h"
#include "core/printable.h"

namespace rondo::ir {

std::string Text(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return text;
}

namespace {

std::string ShapeText(const Shape& shape) {
  char text[160];
  return Format(shape, text, sizeof(text));
}

std::string IndexedText(const Node& n) {
  const IndexedAttrs& a = n.As<IndexedAttrs>();
  std::string out = "map " + ToString(a.map);
  for (const IndexedDim& d : a.dims)
    out += Text(d.fault ? " index %ld of %ld" : " index %ld of %ld or none", d.stride, d.extent);
  if (a.combine != ScatterCombine::kNone) out += Text(" combine %d", static_cast<int>(a.combine));
  return out + (n.op == Op::kIndexedWrite && !a.may_collide ? " no collisions" : "");
}

std::string LoopText(const LoopInfo& loop) {
  std::string out = Text("%ld rounds;", loop.trips);
  for (size_t k = 0; k < loop.inputs.size(); ++k) {
    const LoopInput& in = loop.inputs[k];
    if (in.kind == LoopInputKind::kCarried) out += Text(" input %zu: output %zu,", k, in.next);
    if (in.kind == LoopInputKind::kRow) out += Text(" input %zu: rows%s,", k, in.backward ? " backward" : "");
  }
  for (size_t k = 0; k < loop.outputs.size(); ++k) {
    const LoopOutput& o = loop.outputs[k];
    if (o.rows) out += Text(" output %zu: rows%s,", k, o.backward ? " backward" : "");
  }
  out.pop_back();
  return out;
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
    case Op::kPointwise: {
      const PointwiseAttrs& a = n.As<PointwiseAttrs>();
      return std::string(Name(a.op)) + (a.drops_uncached ? " drops_uncached" : "");
    }
    case Op::kIota: return Text("axis %d", n.As<IotaAttrs>().axis);
    case Op::kTopK:
    case Op::kReduce: {
      std::string out = kReduceNames[static_cast<int>(n.As<ReduceAttrs>().kind)];
      for (int axis : n.As<ReduceAttrs>().axes) out += Text(" %d", axis);
      return out;
    }
    case Op::kConcat: return Text("axis %d", n.As<ConcatAttrs>().axis);
    case Op::kIndexedRead:
    case Op::kIndexedWrite: return IndexedText(n);
    case Op::kAttention: {
      const AttentionAttrs& a = n.As<AttentionAttrs>();
      return Text("scale %.9g", a.scale) + (a.softcap != 0 ? Text(" softcap %.9g", a.softcap) : "") +
             (a.has_mask ? " mask" : "") + (a.has_limit ? " limit" : "") + (a.has_sink ? " sink" : "") +
             (a.nan_to_zero ? " nan_to_zero" : "") + (a.limit_is_cached ? " limit_is_cached" : "");
    }
    case Op::kCollective: {
      const CollectiveAttrs& a = n.As<CollectiveAttrs>();
      std::string text = Text("%s of %ld", rondo::Name(a.op), a.devices);
      for (size_t i = 0; i < a.group.size(); ++i) text += Text(i == 0 ? ": %u" : ", %u", a.group[i]);
      return text;
    }
    case Op::kCall:
    case Op::kCallResult: {
      const CallAttrs& a = n.As<CallAttrs>();
      const std::string name = std::string(a.info->op.domain) + "." + std::string(a.info->op.name);
      return name + Text(" output %u", a.output) + (a.info->IsVersion(a.output) ? " in place" : "");
    }
    case Op::kLoop: return LoopText(*n.As<LoopAttrs>().info);
    case Op::kLoopResult: return Text("output %u", n.As<LoopAttrs>().output);
    default: return "";
  }
}

std::string Ids(const std::vector<NodeId>& ids) {
  std::string out;
  for (NodeId id : ids) out += (out.empty() ? "%" : ", %") + std::to_string(id);
  return out;
}

}  // namespace

const char* Name(Op op) {
  static constexpr const char* kNames[] = {
      "input", "constant",    "view",         "pointwise",     "iota",   "reduce",    "matmul",
      "conv",  "pool",        "indexed_read", "indexed_write", "concat", "attention", "collective",
      "call",  "call_result", "loop",         "loop_result",   "top_k"};
  return kNames[static_cast<int>(op)];
}

std::string Dump(const Graph& graph) {
  std::string out = Printable("graph " + graph.name) + "\n";
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (n.dead) continue;
    std::string line = Text("%%%d = %s %s%s", n.id, Name(n.op), Name(n.dtype), ShapeText(n.shape).c_str());
    if (std::string attrs = AttrText(n); !attrs.empty()) line += " {" + attrs + "}";
    line += " (" + Ids(n.inputs) + ")";
    if (!n.weak_after.empty()) line += " weak after " + Ids(n.weak_after);
    if (!n.strong_after.empty()) line += " strong after " + Ids(n.strong_after);
    if (!n.name.empty()) line += " \"" + n.name + "\"";
    for (const auto& [key, value] : n.annotations) line += " @" + key + "=" + value;
    if (!n.sources.empty()) line += "  ; " + n.sources[0];
    if (n.sources.size() > 1) line += Text(" and %zu more", n.sources.size() - 1);
    out += Printable(line) + "\n";
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    if (!n.dead && n.op == Op::kLoop) out += Text("body of %%%d: ", id) + Dump(n.As<LoopAttrs>().info->body);
  }
  for (const GraphInput& in : graph.inputs)
    out += Printable("input " + in.name) + " = " + Ids({in.node}) + "\n";
  for (const GraphOutput& o : graph.outputs)
    out += Printable("output " + o.name) + " = " + Ids({o.node}) + "\n";
  for (const StatePair& s : graph.states) {
    out += Printable("state " + graph.inputs[static_cast<size_t>(s.input)].name + " -> " +
                     graph.outputs[static_cast<size_t>(s.output)].name) +
           "\n";
  }
  return out;
}

}  // namespace rondo::ir
