// The steps of a plan that compute each node of its model, and their properties.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "formats/plan/assertion_note.h"
#include "formats/plan/region_note.h"

namespace rondo {

// The ONNX nodes that a step comes from: `Relu "a"; Add "b"` -> {"a", "b"}.
inline std::vector<std::string> NodesOf(const PlanData& plan, const Step& step) {
  std::vector<std::string> nodes;
  if (step.source == kNone) return nodes;
  const std::string_view text = plan.sources[step.source];
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("; ", at), text.size());
    const std::string_view one = text.substr(at, end - at);
    const size_t first = one.find('"');
    if (first != one.npos) nodes.emplace_back(one.substr(first + 1, one.size() - first - 2));
    at = end + 2;
  }
  return nodes;
}

// The steps of program `number` that compute part of `node`.
inline std::vector<uint32_t> StepsOf(const PlanData& plan, const std::string& node, size_t number = 0) {
  std::vector<uint32_t> steps;
  const Program& program = plan.programs[number];
  for (uint32_t i = 0; i < program.steps.size(); ++i) {
    const std::vector<std::string> nodes = NodesOf(plan, program.steps[i]);
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) steps.push_back(i);
  }
  return steps;
}

// The instruction that is assertion `number` of the step's kernel; null: there is none.
inline const TapeInst* Asserting(const PlanData& plan, const Step& step, uint32_t number) {
  const TapeInst* found = nullptr;
  for (const Part& part : step.kernel == kNone ? Span<const Part>() : plan.kernels[step.kernel].parts) {
    ForEachTape(part, [&](const Tape& tape) {
      for (const TapeInst& inst : tape) {
        if (inst.op == TapeOp::kAssertFinite && inst.imm.i == number) found = &inst;
      }
    });
  }
  return found;
}

// What contradicts that the annotation holds of the node that it names, in every program; "" if nothing does.
// Streams are counted as the plan numbers them: `stream=0`, and any other.
inline std::string WhyItDoesNotHold(const PlanData& plan, const NodeAnnotation& annotation) {
  bool runs = false;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const Program& program = plan.programs[p];
    const std::vector<AssertionNote> notes = AssertionsOf(plan, program);
    const auto is_of = [&](const AssertionNote& note) {
      const TapeInst* const inst = Asserting(plan, program.steps[note.step], note.assertion);
      return note.node.ends_with(" \"" + annotation.node + "\"") && inst != nullptr;
    };
    if (annotation.key == "assert" && std::none_of(notes.begin(), notes.end(), is_of))
      return "no step asserts " + annotation.node;
    for (uint32_t i : StepsOf(plan, annotation.node, p)) {
      runs = true;
      const Step& step = program.steps[i];
      const std::vector<std::string> nodes = NodesOf(plan, step);
      if (annotation.key == "assert") continue;
      const std::string where = "step " + std::to_string(i) + " of " + annotation.node;
      if (annotation.key == "fuse" && nodes.size() != 1)
        return where + " computes " + nodes[0] + ", " + nodes[1];
      if (annotation.key == "stream" && (step.stream != 0) != (annotation.value != "0"))
        return where + " is on stream " + std::to_string(step.stream);
      for (const Partition& partition : program.partitions) {
        const bool holds = i >= partition.first_step && i < partition.first_step + partition.num_steps;
        if (annotation.key == "graph" && holds && partition.num_steps != 1) return where + " is in a graph";
      }
    }
  }
  return runs ? "" : "no step is of " + annotation.node;
}

// By node of the model: the region that holds it ("layer/attention"). Checks that every launch computes nodes
// of one region, and is in a place of that region and of no other. Returns the contradiction, or "".
inline std::string WhyRegionsDoNotHold(const PlanData& plan,
                                       const std::map<std::string, std::string>& regions) {
  for (const Program& program : plan.programs) {
    const std::vector<RegionNote> notes = RegionsOf(plan, program);
    for (uint32_t i = 0; i < program.steps.size(); ++i) {
      if (program.steps[i].kind != StepKind::kLaunch) continue;
      std::string noted;  // outer regions are noted before inner ones
      for (const RegionNote& note : notes) {
        if (note.first_step <= i && i <= note.last_step) noted = note.region;
      }
      for (const std::string& node : NodesOf(plan, program.steps[i])) {
        const auto region = regions.find(node);
        const std::string own = region == regions.end() ? "" : region->second;
        if (own != noted)
          return "step " + std::to_string(i) + " stands in region \"" + noted + "\", and " + node + " in \"" +
                 own + "\"";
      }
    }
  }
  return "";
}

}  // namespace rondo
