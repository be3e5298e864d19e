#include "compiler/schedule/partition.h"

#include <algorithm>

#include "compiler/schedule/least_memory.h"

namespace rondo {
namespace {

struct Break {
  bool breaks = false;
  BreakReason reason = BreakReason::kProgramEnd;
  std::string detail;
};

std::string Named(const SeamStep& step, size_t index) {
  return "step " + std::to_string(index) + (step.source.empty() ? "" : " (" + step.source + ")");
}

// Whether a partition that holds `before` ends before step `index`, and why.
Break BreakBetween(const SeamStep& before, const SeamStep& step, size_t before_index, size_t index) {
  const std::string name = Named(step, index);
  if (!step.user_break.empty()) {
    return {true, BreakReason::kUserBreak, name + ": " + step.user_break};
  }
  if (before.device != step.device) {
    return {true, BreakReason::kDeviceChange,
            name + " runs on device " + std::to_string(step.device) + ", the steps before it on device " +
                std::to_string(before.device)};
  }
  if (!step.unsafe.empty()) {
    return {true, BreakReason::kUnsafeStep, name + " cannot be in a graph: " + step.unsafe};
  }
  if (!before.unsafe.empty()) {
    return {true, BreakReason::kUnsafeStep,
            Named(before, before_index) + " cannot share a graph: " + before.unsafe};
  }
  if (step.sync_point || before.sync_point) {
    return {true, BreakReason::kSyncPoint,
            (step.sync_point ? name : Named(before, before_index)) +
                " is a collective that stands between partitions"};
  }
  return {};
}

}  // namespace

std::vector<PlannedPartition> PartitionSteps(const std::vector<SeamStep>& steps) {
  std::vector<PlannedPartition> partitions;
  for (size_t i = 0; i < steps.size(); ++i) {
    Break seam = i == 0 ? Break{true, {}, {}} : BreakBetween(steps[i - 1], steps[i], i - 1, i);
    if (seam.breaks) {
      if (i > 0) {
        partitions.back().reason = seam.reason;
        partitions.back().detail = std::move(seam.detail);
      }
      partitions.push_back(
          {steps[i].device, static_cast<uint32_t>(i), 0, BreakReason::kProgramEnd, "the program ends"});
    }
    ++partitions.back().num_steps;
  }
  return partitions;
}

bool CloseCollectives(const std::vector<SeamStep>& steps, LoweredProgram* program) {
  const size_t count = program->ops.size();
  std::vector<size_t> start_of(program->collectives.size(), count);
  std::vector<bool> closes(program->collectives.size(), false);
  for (size_t i = 0; i < count; ++i) {
    const LoweredOp& op = program->ops[i];
    const auto number = static_cast<size_t>(op.collective);
    if (op.kind == LoweredKind::kCollectiveStart) start_of[number] = i;
    if (op.kind != LoweredKind::kCollectiveWait) continue;
    for (size_t k = start_of[number] + 1; k <= i; ++k) {
      if (BreakBetween(steps[k - 1], steps[k], k - 1, k).breaks) closes[number] = true;
    }
  }
  std::vector<int> order;
  for (size_t i = 0; i < count; ++i) {
    const LoweredOp& op = program->ops[i];
    const bool closed = op.collective >= 0 && closes[static_cast<size_t>(op.collective)];
    if (closed && op.kind == LoweredKind::kCollectiveWait) continue;
    order.push_back(static_cast<int>(i));
    if (!closed) continue;
    size_t wait = i;
    while (program->ops[wait].kind != LoweredKind::kCollectiveWait ||
           program->ops[wait].collective != op.collective)
      ++wait;
    order.push_back(static_cast<int>(wait));
  }
  if (std::is_sorted(order.begin(), order.end())) return false;
  Reorder(order, program);
  return true;
}

bool IsSourceNode(const std::string& source, const std::string& node) {
  const std::string quoted = "\"" + node + "\"";
  return source.size() >= quoted.size() &&
         source.compare(source.size() - quoted.size(), quoted.size(), quoted) == 0 &&
         (source.size() == quoted.size() || source[source.size() - quoted.size() - 1] == ' ');
}

std::vector<SeamStep> SeamSteps(const LoweredProgram& program, const std::vector<std::string>& break_before,
                                std::vector<std::string>* found) {
  std::vector<SeamStep> steps(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const LoweredOp& op = program.ops[i];
    if (!op.sources.empty()) steps[i].source = op.sources.front();
    const auto graph = op.annotations.find("graph");
    if (graph != op.annotations.end() && graph->second == "off") {
      steps[i].unsafe = "it is annotated `graph: off`";
    }
    if (op.kind == LoweredKind::kCall && !op.call->op.graph_safe) steps[i].unsafe = op.call->op.reason;
  }
  for (const std::string& node : break_before) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const auto& sources = program.ops[i].sources;
      if (std::none_of(sources.begin(), sources.end(),
                       [&](const std::string& s) { return IsSourceNode(s, node); })) {
        continue;
      }
      if (program.ops[i].kind == LoweredKind::kCollectiveWait) continue;
      size_t at = i;  // all steps of a loop are in one graph
      while (program.ops[i].loop >= 0 && at > 0 && program.ops[at - 1].loop == program.ops[i].loop) --at;
      steps[at].user_break = "a break was asked for before node \"" + node + "\"";
      found->push_back(node);
      break;
    }
  }
  return steps;
}

}  // namespace rondo
