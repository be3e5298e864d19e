#include "compiler/import/data_loop.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "compiler/import/data_sizes_rules.h"
#include "compiler/import/loop_rounds.h"

namespace rondo::importer {
namespace {

struct DataLoop {
  const onnx::GraphProto* body = nullptr;
  NodeId count = kNoNode;  // i64 []: upper bound on the rounds; kNoNode: only `rounds`
  NodeId alive = kNoNode;  // bool []: whether there is a first round
  int64_t rounds = 0;
  bool may_exceed = true;  // whether a run may need more rounds
  std::vector<NodeId> carried;
  size_t scans = 0;
};

// The results of one round: the new `alive`, the carried values, and the scanned outputs. After the last real
// round the values stay, and the body has no effect and fails no run.
struct DataRound {
  NodeId alive = kNoNode;
  std::vector<NodeId> carried, scanned;
};
Result<DataRound> RunRound(OpContext& c, const DataLoop& loop, NodeId number, NodeId alive,
                           const std::vector<NodeId>& carried) {
  ir::Builder& b = c.b;
  const NodeId yes = b.Ints(DType::kBool, Shape{}, {1}), no = b.Ints(DType::kBool, Shape{}, {0});
  std::vector<Value> inputs = {Value{number, false, {}}, Value{yes, false, {}}};
  for (NodeId node : carried) inputs.push_back(Value{node, false, {}});
  const NodeId outer = b.faults_where();
  b.FaultOnlyWhere(outer == kNoNode ? alive : b.Select(outer, alive, no));
  Result<std::vector<Value>> out = c.host.RunSubgraph(*loop.body, inputs);
  b.FaultOnlyWhere(outer);
  if (!out.ok()) return out.status();
  if (out->size() != 1 + carried.size() + loop.scans) {
    return Status::Error(Code::kCorrupt, "its body gives %zu values; %zu are needed", out->size(),
                         1 + carried.size() + loop.scans);
  }
  for (const Value& value : *out) {
    if (value.is_sequence || value.node == kNoNode)
      return Status::Error(Code::kUnsupported, "data decide its rounds, and it carries or gives a sequence");
  }
  const NodeId go = (*out)[0].node;
  if (b.dtype(go) != DType::kBool || b.shape(go).elements() != 1)
    return Status::Error(Code::kCorrupt, "its condition is not one bool");
  DataRound round;
  round.alive = b.Select(alive, b.Reshape(go, Shape{}), no);
  if (loop.count != kNoNode) {
    const NodeId next = b.Add(b.Reshape(number, Shape{}), b.Scalar(DType::kI64, 1));
    round.alive = b.Select(b.Binary(TapeOp::kLess, next, loop.count), round.alive, no);
  }
  for (size_t i = 0; i < carried.size(); ++i) {
    const NodeId next = (*out)[1 + i].node;
    if (b.dtype(next) != b.dtype(carried[i]) || !(b.shape(next) == b.shape(carried[i]))) {
      return Status::Error(
          Code::kUnsupported,
          "data decide its rounds, and carried value %zu of %s becomes one of %s: export the "
          "loop with values of a fixed shape",
          i, Text(b.shape(carried[i])).c_str(), Text(b.shape(next)).c_str());
    }
    round.carried.push_back(b.Select(alive, next, carried[i]));
  }
  for (size_t s = 0; s < loop.scans; ++s) {
    const NodeId row = (*out)[1 + carried.size() + s].node;
    round.scanned.push_back(b.Select(alive, row, b.Scalar(b.dtype(row), 0)));
  }
  return round;
}

struct DataLoopResult {
  NodeId alive = kNoNode;       // whether another round would follow
  NodeId real = kNoNode;        // bool [rounds]: the rounds that took place
  std::vector<NodeId> carried;  // after the last round
  std::vector<NodeId> scanned;  // [rounds, ...]
};

// Imports the body once. Returns false if it has to be imported round by round.
bool RunDataLoop(OpContext& c, const DataLoop& loop, DataLoopResult* result) {
  ir::LoopMaker maker(&c.b, loop.rounds);
  const NodeId number = maker.Row(c.b.Iota({loop.rounds}, 0), false), alive = maker.Carried(loop.alive);
  std::vector<NodeId> carried, last, rows;
  for (NodeId node : loop.carried) carried.push_back(maker.Carried(node));
  Result<DataRound> round = RunRound(c, loop, number, alive, carried);
  if (!round.ok()) return false;
  std::vector<NodeId> next = {round->alive};
  next.insert(next.end(), round->carried.begin(), round->carried.end());
  std::vector<ir::LoopMaker::Rows> scanned = {{alive, false}};
  for (NodeId node : round->scanned) scanned.push_back({node, false});
  if (!maker.Finish(next, scanned, &last, &rows)) return false;
  *result = {last[0], rows[0], {last.begin() + 1, last.end()}, {rows.begin() + 1, rows.end()}};
  return true;
}

Status WriteOutDataLoop(OpContext& c, const DataLoop& loop, DataLoopResult* result) {
  if (loop.rounds > kMaxTrips)
    return Status::Error(Code::kUnsupported, "%lld iterations", static_cast<long long>(loop.rounds));
  std::vector<NodeId> reals;
  std::vector<std::vector<NodeId>> scanned(loop.scans);
  result->alive = loop.alive;
  result->carried = loop.carried;
  for (int64_t t = 0; t < loop.rounds; ++t) {
    RONDO_ASSIGN_OR_RETURN(DataRound round, RunRound(c, loop, c.b.Ints(DType::kI64, Shape{}, {t}),
                                                     result->alive, result->carried));
    reals.push_back(result->alive);
    result->alive = round.alive;
    result->carried = std::move(round.carried);
    for (size_t s = 0; s < loop.scans; ++s) scanned[s].push_back(round.scanned[s]);
  }
  RONDO_ASSIGN_OR_RETURN(result->real, Stack(c, reals, 0, false));
  for (const std::vector<NodeId>& of_rounds : scanned) {
    RONDO_ASSIGN_OR_RETURN(const NodeId joined, Stack(c, of_rounds, 0, false));
    result->scanned.push_back(joined);
  }
  return Status::Ok();
}

Status MakeDataLoop(OpContext& c, const onnx::GraphProto& body, int64_t trips) {
  ir::Builder& b = c.b;
  const int64_t bound = c.host.BoundOf(c.proto);
  DataLoop loop;
  loop.body = &body;
  loop.rounds = bound > 0 && (trips < 0 || bound < trips) ? bound : trips;
  loop.may_exceed = loop.rounds != trips;
  if (loop.rounds < 0 || loop.rounds > kMaxRounds) {
    return Status::Error(
        Code::kUnsupported,
        "data decide how often it runs: say how often at most (--bound NODE=N, of at most %lld, "
        "NODE being its name or an output of it)",
        static_cast<long long>(kMaxRounds));
  }
  if (loop.rounds == 0) return Status::Error(Code::kUnsupported, "it may run 0 times at most");
  for (int i = 2; i < c.num_inputs(); ++i) {
    if (c.InValue(i).is_sequence || c.In(i) == kNoNode)
      return Status::Error(Code::kUnsupported, "data decide its rounds, and it carries a sequence");
    loop.carried.push_back(c.In(i));
  }
  loop.scans = static_cast<size_t>(std::max(0, c.num_outputs() - static_cast<int>(loop.carried.size())));
  const NodeId yes = b.Ints(DType::kBool, Shape{}, {1}), no = b.Ints(DType::kBool, Shape{}, {0});
  loop.alive = c.Has(1) ? b.Reshape(c.In(1), Shape{}) : yes;
  if (trips < 0 && c.Has(0)) {
    loop.count = b.Reshape(c.In(0), Shape{});
    loop.alive = b.Select(b.Binary(TapeOp::kLess, b.Scalar(DType::kI64, 0), loop.count), loop.alive, no);
  }
  DataLoopResult result;
  if (loop.rounds <= c.host.longest_unrolled() || !RunDataLoop(c, loop, &result))
    RONDO_RETURN_IF_ERROR(WriteOutDataLoop(c, loop, &result));
  const auto checked = [&](NodeId node) {
    return loop.may_exceed ? data_sizes::Checked(b, node, data_sizes::Count(b, result.alive)) : node;
  };
  for (size_t i = 0; i < loop.carried.size(); ++i) c.Set(static_cast<int>(i), checked(result.carried[i]));
  auto space = std::make_shared<DataSizedDim>();
  space->source = b.sources().empty() ? c.proto.op_type() : b.sources()[0];
  space->length = loop.rounds;
  space->real = result.real;
  for (size_t s = 0; s < loop.scans; ++s)
    c.SetValue(static_cast<int>(loop.carried.size() + s),
               data_sizes::WithDim(checked(result.scanned[s]), space, 0));
  return Status::Ok();
}

}  // namespace

Status LoopOnData(OpContext& c, const onnx::GraphProto& body, int64_t trips, NodeId decider) {
  Status status = MakeDataLoop(c, body, trips);
  if (!status.ok()) (void)c.Known(decider);  // reports the inputs that decide
  return status;
}

}  // namespace rondo::importer
