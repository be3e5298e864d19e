// The rounds of Loop and Scan: a body that is imported once, and what all rounds give. Internal to
// compiler/import.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/import/op_context.h"
#include "compiler/ir/loop.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {

constexpr int64_t kMaxTrips = 4096;      // rounds that are imported one by one
constexpr int64_t kMaxRounds = 1 << 16;  // rounds of a loop

// The inputs and results of a loop over a body.
struct Rounds {
  int64_t trips = 0;
  bool counted = false;                      // the body takes the round's number and a condition first
  std::vector<ir::LoopMaker::Rows> scanned;  // the rounds are the first axis
  std::vector<bool> backward;                // whether the results of the rounds are stacked backward
  std::vector<Value> carried;                // the values before the loop, and then after all rounds
  std::vector<NodeId> stacked;               // results of each round along a new first axis
};

// Imports the body once. Returns false if it has to be imported round by round.
bool RunAsLoop(OpContext& c, const onnx::GraphProto& body, Rounds* rounds);

// The value of a constant condition; otherwise an error that names the operator.
Result<bool> ConstantCondition(const OpContext& c, const Value& value);

// Stacks the parts, one of each round, along a new axis. kUnsupported if their shapes or types differ.
Result<ir::NodeId> Stack(OpContext& c, const std::vector<ir::NodeId>& parts, int axis, bool reversed);

}  // namespace rondo::importer
