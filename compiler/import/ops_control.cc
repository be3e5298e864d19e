// Control flow. An If with a constant condition imports its branch. Loop and Scan become loops if their
// bodies are the same in every round, and are unrolled otherwise.
#include <algorithm>

#include "compiler/import/data_loop.h"
#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/decompose.h"
#include "compiler/import/join_branches.h"
#include "compiler/import/loop_rounds.h"
#include "compiler/import/registry.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

Result<const onnx::GraphProto*> Subgraph(OpContext& c, const char* name) {
  const onnx::AttributeProto* a = c.Attribute(name);
  if (a == nullptr || !a->has_g()) return Status::Error(Code::kCorrupt, "it has no graph \"%s\"", name);
  return &a->g();
}

// Makes cosines or sines [positions, half] for short and for long texts equally long. The condition never
// chooses a position beyond the end of the original table. Anything else stays as it is.
void MakeEquallyLong(OpContext& c, const std::string& name, NodeId* a, NodeId* d) {
  constexpr int64_t kMostBytes = int64_t{1} << 32;
  std::shared_ptr<const ir::ConstantData> tables[2];
  NodeId* nodes[] = {a, d};
  int64_t rows = 0;
  for (int i : {0, 1}) {
    const Shape& shape = c.b.shape(*nodes[i]);
    if (shape.rank != 2 || shape[1] != c.b.shape(*a)[1] || shape.elements() == 0 ||
        !c.b.ConstantValue(*nodes[i], kMostBytes, &tables[i]))
      return;
    rows = std::max(rows, shape[0]);
  }
  if (!c.host.IsRotaryCache(name)) return;
  for (int i : {0, 1}) {
    if (tables[i]->shape[0] == rows) continue;
    std::vector<uint8_t> bytes(tables[i]->bytes.begin(), tables[i]->bytes.end());
    const Shape shape = {rows, tables[i]->shape[1]};
    bytes.resize(static_cast<size_t>(shape.elements() * ByteSize(tables[i]->dtype)));
    *nodes[i] = c.b.Constant(ir::ConstantData::Own(tables[i]->dtype, shape, std::move(bytes)));
  }
}

// A branch of an If whose condition is known only at run time. It is computed in every run, but its faults
// count only where `taken` holds and the branches around it are taken.
Result<std::vector<Value>> RunBranch(OpContext& c, const onnx::GraphProto& graph, NodeId taken) {
  const NodeId outer = c.b.faults_where();
  const NodeId no = c.b.Ints(DType::kBool, Shape{}, {0});
  c.b.FaultOnlyWhere(outer == kNoNode ? taken : c.b.Select(outer, taken, no));
  Result<std::vector<Value>> values = c.host.RunSubgraph(graph, {});
  c.b.FaultOnlyWhere(outer);
  if (values.ok()) return values;
  // The branch may be one that is never taken.
  (void)c.Known(c.In(0));
  const std::vector<std::string> inputs = InputsBehind(c.b.graph(), c.In(0));
  if (inputs.empty()) return values;
  return values.status().At("a branch, which is left out if it is not taken for --bind %.100s=VALUE%s",
                            inputs[0].c_str(), inputs.size() > 1 ? " and other inputs" : "");
}

// Computes both branches and keeps one. The other one has no effect and fails no run.
Status SelectBranch(OpContext& c, const onnx::GraphProto& then_graph, const onnx::GraphProto& else_graph) {
  NodeId condition = c.b.Reshape(c.In(0), Shape{});
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> yes, RunBranch(c, then_graph, condition));
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> no, RunBranch(c, else_graph, c.b.Unary(TapeOp::kNot, condition)));
  for (size_t i = 0; i < yes.size() && i < no.size() && static_cast<int>(i) < c.num_outputs(); ++i) {
    Value &a = yes[i], &d = no[i];
    if (a.is_sequence || d.is_sequence || a.node == kNoNode || d.node == kNoNode)
      return RefuseBranches(c, static_cast<int>(i));
    MakeEquallyLong(c, c.proto.output(static_cast<int>(i)), &a.node, &d.node);
    RONDO_ASSIGN_OR_RETURN(Value joined, JoinBranches(c, condition, a, d, static_cast<int>(i)));
    c.SetValue(static_cast<int>(i), std::move(joined));
  }
  return Status::Ok();
}

Status If(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const onnx::GraphProto* then_graph, Subgraph(c, "then_branch"));
  RONDO_ASSIGN_OR_RETURN(const onnx::GraphProto* else_graph, Subgraph(c, "else_branch"));
  if (c.dtype(0) != DType::kBool || c.shape(0).elements() != 1) {
    return Status::Error(Code::kCorrupt, "its condition is not one bool");
  }
  auto condition = c.ConstantInts(0);
  if (!condition.ok()) return SelectBranch(c, *then_graph, *else_graph);
  RONDO_ASSIGN_OR_RETURN(std::vector<Value> out,
                         c.host.RunSubgraph((*condition)[0] != 0 ? *then_graph : *else_graph, {}));
  for (size_t i = 0; i < out.size(); ++i) c.SetValue(static_cast<int>(i), out[i]);
  return Status::Ok();
}

bool IsKnown(const OpContext& c, NodeId node) { return EvaluateConstant(c.b.graph(), node).ok(); }

// Moves axis `from` of `x` to `to`; one of them is the first.
NodeId MoveAxis(OpContext& c, NodeId x, int from, int to) {
  std::vector<int> perm;
  for (int d = 0; d < c.b.shape(x).rank; ++d) {
    if (d != from) perm.push_back(d);
  }
  perm.insert(perm.begin() + to, from);
  return c.b.Transpose(x, perm);
}

// Inputs: trip count, condition, carried values. Body: (iteration, condition, carried) to (condition,
// carried, scanned).
Status Loop(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const onnx::GraphProto* body, Subgraph(c, "body"));
  int64_t trips = kMaxTrips + 1;
  if (c.Has(0)) {
    if (c.shape(0).elements() != 1 || c.dtype(0) != DType::kI64)
      return Status::Error(Code::kCorrupt, "its trip count is not a scalar");
    if (!IsKnown(c, c.In(0))) return LoopOnData(c, *body, -1, c.In(0));
    RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> count, c.ConstantInts(0));
    trips = count[0];
  }
  bool go = true;
  if (c.Has(1)) {
    if (c.dtype(1) == DType::kBool && c.shape(1).elements() == 1 && !IsKnown(c, c.In(1)))
      return LoopOnData(c, *body, c.Has(0) ? trips : -1, c.In(1));
    RONDO_ASSIGN_OR_RETURN(go, ConstantCondition(c, c.InValue(1)));
  }
  std::vector<Value> carried;
  for (int i = 2; i < c.num_inputs(); ++i) carried.push_back(c.InValue(i));
  size_t scans = static_cast<size_t>(std::max(0, c.num_outputs() - static_cast<int>(carried.size())));
  std::vector<std::vector<NodeId>> scanned(scans);
  Rounds rounds{go && c.Has(0) ? trips : 0, true, {}, std::vector<bool>(scans), carried, {}};
  if (RunAsLoop(c, *body, &rounds)) {
    for (size_t i = 0; i < carried.size(); ++i) c.SetValue(static_cast<int>(i), rounds.carried[i]);
    for (size_t s = 0; s < scans; ++s) c.Set(static_cast<int>(carried.size() + s), rounds.stacked[s]);
    return Status::Ok();
  }
  for (int64_t t = 0; go && t < trips; ++t) {
    if (t >= kMaxTrips) {
      return Status::Error(Code::kUnsupported, "more than %lld iterations",
                           static_cast<long long>(kMaxTrips));
    }
    std::vector<Value> inputs = {Value{c.b.Ints(DType::kI64, Shape{}, {t}), false, {}},
                                 Value{c.b.Ints(DType::kBool, Shape{}, {1}), false, {}}};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    RONDO_ASSIGN_OR_RETURN(std::vector<Value> out, c.host.RunSubgraph(*body, inputs));
    if (out.size() != 1 + carried.size() + scans) {
      return Status::Error(Code::kCorrupt, "its body gives %zu values; %zu are needed", out.size(),
                           1 + carried.size() + scans);
    }
    if (!out[0].is_sequence && out[0].node != kNoNode && !IsKnown(c, out[0].node))
      return LoopOnData(c, *body, c.Has(0) ? trips : -1, out[0].node);
    RONDO_ASSIGN_OR_RETURN(go, ConstantCondition(c, out[0]));
    std::copy(out.begin() + 1, out.begin() + 1 + static_cast<int64_t>(carried.size()), carried.begin());
    for (size_t s = 0; s < scans; ++s) {
      const Value& v = out[1 + carried.size() + s];
      if (v.node == kNoNode) return Status::Error(Code::kUnsupported, "a scanned sequence");
      scanned[s].push_back(v.node);
    }
  }
  for (size_t i = 0; i < carried.size(); ++i) c.SetValue(static_cast<int>(i), carried[i]);
  for (size_t s = 0; s < scans; ++s) {
    int output = static_cast<int>(carried.size() + s);
    if (!c.Wants(output)) continue;
    if (scanned[s].empty()) return Status::Error(Code::kUnsupported, "no iterations to scan");
    RONDO_ASSIGN_OR_RETURN(NodeId joined, Stack(c, scanned[s], 0, false));
    c.Set(output, joined);
  }
  return Status::Ok();
}

int64_t At(const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 0; }

// The ports of a Scan: its inputs are states, then tensors scanned along an axis, and so are its outputs.
struct ScanPorts {
  size_t states = 0, results = 0;
  int64_t trips = -1;
  std::vector<int> axes;  // scanned axes of the inputs
  std::vector<int64_t> directions, out_axes, out_directions;
};

Result<ScanPorts> ReadScan(OpContext& c) {
  ScanPorts scan;
  const int64_t scans = c.Int("num_scan_inputs", 0);
  if (scans < 1 || scans > c.num_inputs())
    return Status::Error(Code::kCorrupt, "num_scan_inputs out of range");
  scan.states = static_cast<size_t>(c.num_inputs() - scans);
  scan.results = static_cast<size_t>(std::max(0, c.num_outputs() - static_cast<int>(scan.states)));
  const std::vector<int64_t> axes = c.Ints("scan_input_axes");
  scan.directions = c.Ints("scan_input_directions");
  scan.out_axes = c.Ints("scan_output_axes");
  scan.out_directions = c.Ints("scan_output_directions");
  for (size_t s = 0; s < static_cast<size_t>(scans); ++s) {
    const int input = static_cast<int>(scan.states + s);
    if (!c.Has(input)) return Status::Error(Code::kCorrupt, "input %d is missing", input);
    RONDO_ASSIGN_OR_RETURN(const int axis, c.Axis(At(axes, s), c.rank(input)));
    scan.axes.push_back(axis);
    if (scan.trips >= 0 && scan.trips != c.shape(input)[axis])
      return Status::Error(Code::kCorrupt, "scan lengths differ");
    scan.trips = c.shape(input)[axis];
  }
  return scan;
}

// Imports every round as separate nodes.
Status WriteOutScan(OpContext& c, const onnx::GraphProto& body, const ScanPorts& scan,
                    std::vector<Value> carried) {
  if (scan.trips < 1 || scan.trips > kMaxTrips) {
    return Status::Error(Code::kUnsupported, "%lld iterations", static_cast<long long>(scan.trips));
  }
  std::vector<std::vector<NodeId>> scanned(scan.results);
  for (int64_t t = 0; t < scan.trips; ++t) {
    std::vector<Value> inputs = carried;
    for (size_t s = 0; s < scan.axes.size(); ++s) {
      const int64_t at = At(scan.directions, s) != 0 ? scan.trips - 1 - t : t;
      const NodeId x = c.b.Slice(c.In(static_cast<int>(scan.states + s)), scan.axes[s], at, 1, 1);
      inputs.push_back(Value{c.b.Squeeze(x, scan.axes[s]), false, {}});
    }
    RONDO_ASSIGN_OR_RETURN(std::vector<Value> out, c.host.RunSubgraph(body, inputs));
    if (out.size() != scan.states + scan.results)
      return Status::Error(Code::kCorrupt, "its body gives %zu values", out.size());
    std::copy(out.begin(), out.begin() + static_cast<int64_t>(scan.states), carried.begin());
    for (size_t s = 0; s < scan.results; ++s) {
      const NodeId result = out[scan.states + s].node;
      if (result == kNoNode) return Status::Error(Code::kUnsupported, "a scanned sequence");
      scanned[s].push_back(result);
    }
  }
  for (size_t i = 0; i < scan.states; ++i) c.SetValue(static_cast<int>(i), carried[i]);
  for (size_t s = 0; s < scan.results; ++s) {
    RONDO_ASSIGN_OR_RETURN(int at, c.Axis(At(scan.out_axes, s), c.b.shape(scanned[s][0]).rank + 1));
    RONDO_ASSIGN_OR_RETURN(NodeId joined, Stack(c, scanned[s], at, At(scan.out_directions, s) != 0));
    c.Set(static_cast<int>(scan.states + s), joined);
  }
  return Status::Ok();
}

// Body: (states, elements) to (states, elements).
Status Scan(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const onnx::GraphProto* body, Subgraph(c, "body"));
  RONDO_ASSIGN_OR_RETURN(const ScanPorts scan, ReadScan(c));
  std::vector<Value> carried;
  for (size_t i = 0; i < scan.states; ++i) carried.push_back(c.InValue(static_cast<int>(i)));
  Rounds rounds{scan.trips, false, {}, {}, carried, {}};
  for (size_t s = 0; s < scan.axes.size(); ++s) {
    rounds.scanned.push_back(
        {MoveAxis(c, c.In(static_cast<int>(scan.states + s)), scan.axes[s], 0), At(scan.directions, s) != 0});
  }
  for (size_t s = 0; s < scan.results; ++s) rounds.backward.push_back(At(scan.out_directions, s) != 0);
  if (!RunAsLoop(c, *body, &rounds)) return WriteOutScan(c, *body, scan, carried);
  for (size_t i = 0; i < scan.states; ++i) c.SetValue(static_cast<int>(i), rounds.carried[i]);
  for (size_t s = 0; s < scan.results; ++s) {
    RONDO_ASSIGN_OR_RETURN(int at, c.Axis(At(scan.out_axes, s), c.b.shape(rounds.stacked[s]).rank));
    c.Set(static_cast<int>(scan.states + s), MoveAxis(c, rounds.stacked[s], 0, at));
  }
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"If", 1, If},
    {"Loop", 0, Loop},
    {"Scan", 1, Scan, 9},
};

}  // namespace

Span<const OpRow> ControlOps() { return kOps; }

}  // namespace rondo::importer
