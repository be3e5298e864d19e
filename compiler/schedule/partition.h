// PartitionSteps: cuts the steps into the fewest runs that can each replay as one graph.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fusion/lowered.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// The properties of a step that matter for partitioning. A plain value.
struct SeamStep {
  uint32_t device = 0;
  std::string source;       // `MatMul "layers.3.mlp.down"`, for messages
  std::string user_break;   // the user's reason to end the partition before this step; empty: none
  std::string unsafe;       // why the step cannot be in a graph with others; empty: it can
  bool sync_point = false;  // a collective that stands between partitions
};

struct PlannedPartition {
  uint32_t device = 0;
  uint32_t first_step = 0, num_steps = 0;
  BreakReason reason = BreakReason::kProgramEnd;  // why it ended
  std::string detail;                             // the reason as a sentence naming the node
};

// Partitions that cover all steps in order. A partition grows until a step must not join it, which gives the
// fewest for this order. An unsafe step, or a collective between partitions, is one of its own.
std::vector<PlannedPartition> PartitionSteps(const std::vector<SeamStep>& steps);

// The steps of an ordered program. `break_before` are ONNX node names: a partition ends before the first step
// that came from each; the names found are added to `found`. An op annotated `graph: off` is unsafe; so is a
// call of a custom op that must not be in a graph, with the reason of its library.
std::vector<SeamStep> SeamSteps(const LoweredProgram& program, const std::vector<std::string>& break_before,
                                std::vector<std::string>* found);

// If a partition would end between a collective's start and its wait, moves the wait right behind the start:
// a collective never spans partitions. `steps` are the program's; true if something moved.
bool CloseCollectives(const std::vector<SeamStep>& steps, LoweredProgram* program);

// True if `source` (`MatMul "a.b"`) is for the ONNX node called `node`.
bool IsSourceNode(const std::string& source, const std::string& node);

}  // namespace rondo
