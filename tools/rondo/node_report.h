// The fate of one ONNX node: the answer of `rondo inspect --node`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo::tools {

struct NodeStep {
  uint32_t program = 0, step = 0;
  std::vector<std::string> with;  // the other nodes in the step
};

struct NodeAnswer {
  std::string label;             // `Op "node"`
  std::string became;            // "" if steps compute the node, otherwise a word of formats/plan/node_fate.h
  std::string sentence;          // the same for people
  std::vector<NodeStep> steps;   // steps that compute it or a part of it
  std::vector<uint32_t> values;  // buffers with its results, or the constant that it became
};

// One answer per node of that name; `name` is the node's name or `Op "name"`. kNotFound, with the nearest
// names.
Result<std::vector<NodeAnswer>> AnswerOf(const PlanData& plan, std::string_view name);

std::string TextOf(const PlanData& plan, const NodeAnswer& answer);
nlohmann::ordered_json JsonOf(const PlanData& plan, const NodeAnswer& answer);

}  // namespace rondo::tools
