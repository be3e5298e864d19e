// A graph's rules (Validate), op by op.
#include <algorithm>

#include "compiler/ir/graph.h"
#include "compiler/ir/loop.h"
#include "compiler/ir/text.h"
#include "core/collective.h"

namespace rondo::ir {

namespace {

// Each Check function returns the rule of its op that `n` breaks, or "".

const Node& Input(const Graph& g, const Node& n, size_t k) { return g.node(n.inputs[k]); }

std::string CheckConstant(const Graph&, const Node& n) {
  const auto& data = n.As<ConstantAttrs>().data;
  if (!data) return "has no data";
  if (!(data->shape == n.shape) || data->dtype != n.dtype) return "differs from its data in shape or dtype";
  if (!data->synthetic && static_cast<int64_t>(data->bytes.size()) != data->byte_size()) {
    return "has too few or too many bytes";
  }
  return "";
}

std::string CheckView(const Graph& g, const Node& n) {
  if (n.inputs.size() != 1) return "takes one input";
  if (Input(g, n, 0).op == Op::kView) return "is a view over a view";
  if (Input(g, n, 0).dtype != n.dtype) return "changes the dtype";
  if (n.As<ViewAttrs>().view.steps.empty()) return "has an empty view";
  return n.As<ViewAttrs>().view.shape() == n.shape ? "" : "differs from its view in shape";
}

std::string CheckPointwise(const Graph& g, const Node& n) {
  if (n.inputs.size() < 1 || n.inputs.size() > 3) return "takes one to three inputs";
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    if (!(Input(g, n, k).shape == n.shape)) return Text("has another shape than its input %zu", k);
  }
  return "";
}

std::string CheckReduce(const Graph& g, const Node& n) {
  if (n.inputs.size() != 1 || Input(g, n, 0).shape.rank != n.shape.rank)
    return "must keep the rank of its one input";
  Shape expected = Input(g, n, 0).shape;
  for (int axis : n.As<ReduceAttrs>().axes) {
    if (axis < 0 || axis >= expected.rank) return Text("reduces axis %d", axis);
    expected[axis] = 1;
  }
  return expected == n.shape ? "" : "has a wrong shape";
}

std::string CheckTopK(const Graph& g, const Node& n) {
  if (n.inputs.size() != 1 || n.shape.rank < 2) return "takes one input of rows";
  Shape x = Input(g, n, 0).shape;
  const int last = n.shape.rank - 1;
  if (x.rank != n.shape.rank || n.shape[last] < 1 || n.shape[last] > x[last]) return "takes more than a row";
  x[last] = n.shape[last];
  return x == n.shape && n.dtype == DType::kI64 ? "" : "has a wrong shape or type";
}

std::string CheckPackedMatMul(const Graph& g, const Node& n, const PackedAttrs& attrs) {
  if (n.inputs.size() != (attrs.has_zeros ? 4u : 3u)) return "has a wrong number of inputs";
  const Shape& a = Input(g, n, 0).shape;
  const int r = n.shape.rank;
  if (r < 2 || a.rank != r || attrs.weights.block < 16) return "has inputs that do not fit";
  for (int d = 0; d < r - 1; ++d) {
    if (a[d] != n.shape[d]) return "has shapes that do not fit";
  }
  const PackedShape shape = {n.shape[r - 1], a[r - 1], attrs.weights.block, BitsOf(attrs.weights.type)};
  for (size_t k = 1; k < n.inputs.size(); ++k) {
    const Node& packed = Input(g, n, k);
    const bool fits = packed.op == Op::kConstant && packed.shape.rank == 1 &&
                      (k == 1 ? packed.dtype == DType::kU8 : IsFloat(packed.dtype)) &&
                      packed.shape[0] >= (k == 1 ? shape.covered() : shape.scales_covered());
    if (!fits) return Text("has an input %zu that is not packed as it says", k);
  }
  return "";
}

bool Is8Bit(DType t) { return t == DType::kI8 || t == DType::kU8; }

// The factors of a matmul or convolution. 8-bit integers are summed as i32; a convolution's weights may be
// wider (u8 less a zero point). FP8 is multiplied only with FP8, and summed as f32.
std::string CheckFactors(const Graph& g, const Node& n) {
  if (n.inputs.size() != 2) return "takes two inputs";
  const DType a = Input(g, n, 0).dtype, b = Input(g, n, 1).dtype;
  if (IsFp8(a) || IsFp8(b))
    return IsFp8(a) && IsFp8(b) && n.dtype == DType::kF32 ? "" : "multiplies FP8 with others";
  if (!Is8Bit(a) && !Is8Bit(b)) return "";
  const bool fits = Is8Bit(a) && (Is8Bit(b) || (n.op == Op::kConv && b == DType::kI16));
  return fits && n.dtype == DType::kI32 ? "" : "multiplies 8-bit integers with others";
}

std::string CheckConv(const Graph& g, const Node& n) {
  const std::string wrong = CheckFactors(g, n);
  if (!wrong.empty()) return wrong;
  const int64_t absent = n.As<ConvAttrs>().absent;
  const DType type = Input(g, n, 0).dtype;
  const bool fits = type == DType::kI8 ? absent >= -128 && absent < 128
                                       : absent >= 0 && absent < (type == DType::kU8 ? 256 : 1);
  return fits ? "" : Text("is surrounded by %lld", static_cast<long long>(absent));
}

std::string CheckMatMul(const Graph& g, const Node& n) {
  if (const auto* packed = std::get_if<PackedAttrs>(&n.attrs)) return CheckPackedMatMul(g, n, *packed);
  const std::string wrong = CheckFactors(g, n);
  if (!wrong.empty()) return wrong;
  const Shape &a = Input(g, n, 0).shape, &b = Input(g, n, 1).shape;
  int r = n.shape.rank;
  if (r < 2 || a.rank != r || b.rank != r) return "has inputs of another rank";
  bool fits = a[r - 1] == b[r - 2] && n.shape[r - 2] == a[r - 2] && n.shape[r - 1] == b[r - 1];
  for (int d = 0; d < r - 2; ++d) fits = fits && a[d] == n.shape[d] && b[d] == n.shape[d];
  return fits ? "" : "has shapes that do not fit";
}

std::string CheckIndexed(const Graph& g, const Node& n) {
  const IndexedAttrs& a = n.As<IndexedAttrs>();
  size_t first = n.op == Op::kIndexedRead ? 1 : 2;
  if (n.inputs.size() != first + a.dims.size()) return "has another number of indices than its attributes";
  const Shape& s = n.op == Op::kIndexedRead ? n.shape : Input(g, n, 1).shape;
  if (!(a.map.shape() == s)) return "has a map of another shape";
  for (size_t k = first; k < n.inputs.size(); ++k) {
    if (!(Input(g, n, k).shape == s)) return Text("has another shape than its input %zu", k);
  }
  if (n.op == Op::kIndexedWrite && !(Input(g, n, 0).shape == n.shape))
    return "has another shape than its data";
  return Input(g, n, 0).dtype == n.dtype ? "" : "changes the dtype";
}

std::string CheckConcat(const Graph& g, const Node& n) {
  int axis = n.As<ConcatAttrs>().axis;
  if (n.inputs.size() == 0 || axis < 0 || axis >= n.shape.rank) return "has no inputs or no such axis";
  int64_t total = 0;
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    Shape s = Input(g, n, k).shape;
    if (s.rank != n.shape.rank) return Text("has another rank than its input %zu", k);
    total += s[axis];
    s[axis] = n.shape[axis];
    if (!(s == n.shape)) return Text("does not fit its input %zu", k);
    if (Input(g, n, k).dtype != n.dtype) return "changes the dtype";
  }
  return total == n.shape[axis] ? "" : "has a wrong extent along its axis";
}

std::string CheckAttention(const Graph& g, const Node& n) {
  const AttentionAttrs& a = n.As<AttentionAttrs>();
  if (n.inputs.size() != 3u + (a.has_mask ? 1 : 0) + (a.has_limit ? 1 : 0) + (a.has_sink ? 1 : 0))
    return "has a wrong number of inputs";
  const Shape &q = Input(g, n, 0).shape, &k = Input(g, n, 1).shape, &v = Input(g, n, 2).shape;
  if (q.rank != 4 || k.rank != 4 || v.rank != 4) return "needs q, k and v of rank 4";
  if (k[1] == 0 || q[1] % k[1] != 0) return "has heads that do not divide";
  bool fits = q[0] == k[0] && q[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3] &&
              n.shape == Shape({q[0], q[1], q[2], v[3]});
  if (a.has_mask) fits = fits && Input(g, n, 3).shape == Shape({q[0], q[1], q[2], k[2]});
  for (size_t i = a.has_mask ? 4 : 3; i < n.inputs.size(); ++i)
    fits = fits && Input(g, n, i).shape == Shape({q[0], q[1], q[2]});
  return fits ? "" : "has shapes that do not fit";
}

std::string CheckCollective(const Graph& g, const Node& n) {
  const CollectiveAttrs& a = n.As<CollectiveAttrs>();
  if (!a.group.empty() && static_cast<int64_t>(a.group.size()) != a.devices)
    return Text("is of %ld devices, but names %zu", a.devices, a.group.size());
  if (a.op == CollectiveOp::kSend) {
    if (a.group.size() != 2 || n.inputs.size() > 1) return "takes one input, on the first of two devices";
    if (n.inputs.empty()) return "";
    return n.shape == Shape({0}) && Input(g, n, 0).dtype == n.dtype ? "" : "gives the sender something";
  }
  if (n.inputs.size() != 1) return "takes one input";
  const bool scatters = FactsOf(a.op).reads == CollectiveLayout::kEach;
  const Shape whole = scatters ? Input(g, n, 0).shape : n.shape;
  const Shape share = scatters ? n.shape : Input(g, n, 0).shape;
  if (Input(g, n, 0).dtype != n.dtype) return "changes the dtype";
  if (KeepsShape(a.op)) {
    if (!(whole == share)) return "changes the shape";
    const bool in_parts = FactsOf(a.op).reads == CollectiveLayout::kParts;
    return !in_parts || (whole.rank > 0 && whole[0] == a.devices) ? "" : "has no first axis of its devices";
  }
  bool fits = whole.rank == share.rank + 1 && whole[0] == a.devices;
  for (int d = 0; fits && d < share.rank; ++d) fits = whole[d + 1] == share[d];
  return fits ? "" : "has a shape that does not fit its devices";
}

std::string CheckCall(const Graph& g, const Node& n) {
  const CallInfo& info = *n.As<CallAttrs>().info;
  size_t slot = 0;
  for (uint32_t i = 0; i < info.op.num_inputs; ++i) {
    const CustomArgument& a = info.op.arguments[i];
    if (a.absent) continue;
    if (slot >= n.inputs.size() || !(Input(g, n, slot).shape == a.shape) ||
        Input(g, n, slot).dtype != a.dtype) {
      return Text("does not fit argument %u of its op", i);
    }
    ++slot;
  }
  return slot == n.inputs.size() ? "" : "has more inputs than its op";
}

std::string CheckCallResult(const Graph& g, const Node& n) {
  const CallAttrs& a = n.As<CallAttrs>();
  if (n.inputs.size() != 1 || Input(g, n, 0).op != Op::kCall) return "takes one call";
  if (Input(g, n, 0).As<CallAttrs>().info != a.info || a.output >= a.info->num_outputs())
    return "is of another call";
  const CustomArgument& output = a.info->output(a.output);
  return n.shape == output.shape && n.dtype == output.dtype ? "" : "differs from its op's output";
}

std::string CheckLoopResult(const Graph& g, const Node& n) {
  const LoopAttrs& a = n.As<LoopAttrs>();
  if (n.inputs.size() != 1 || Input(g, n, 0).op != Op::kLoop) return "takes one loop";
  if (Input(g, n, 0).As<LoopAttrs>().info != a.info || a.output >= a.info->outputs.size())
    return "is of another loop";
  const bool fits = n.shape == a.info->ResultShape(a.output) &&
                    n.dtype == a.info->body.node(a.info->body.outputs[a.output].node).dtype;
  return fits ? "" : "differs from its loop's output";
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

// The rule of its op that `n` breaks, or "".
std::string CheckShapes(const Graph& g, const Node& n) {
  switch (n.op) {
    case Op::kInput:
    case Op::kIota: return n.inputs.size() == 0 ? "" : "takes no inputs";
    case Op::kConstant: return CheckConstant(g, n);
    case Op::kView: return CheckView(g, n);
    case Op::kPointwise: return CheckPointwise(g, n);
    case Op::kReduce: return CheckReduce(g, n);
    case Op::kMatMul: return CheckMatMul(g, n);
    case Op::kIndexedRead:
    case Op::kIndexedWrite: return CheckIndexed(g, n);
    case Op::kConcat: return CheckConcat(g, n);
    case Op::kAttention: return CheckAttention(g, n);
    case Op::kCollective: return CheckCollective(g, n);
    case Op::kCall: return CheckCall(g, n);
    case Op::kCallResult: return CheckCallResult(g, n);
    case Op::kLoop: return CheckLoop(*n.As<LoopAttrs>().info, g, n);
    case Op::kLoopResult: return CheckLoopResult(g, n);
    case Op::kConv: return CheckConv(g, n);
    case Op::kTopK: return CheckTopK(g, n);
    case Op::kPool: return n.inputs.size() == 1 ? "" : "takes one input";
  }
  return "";
}

// The rule that live node number `id` breaks, or "".
std::string CheckNode(const Graph& graph, NodeId id) {
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
}  // namespace

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
