#include "tools/rondo/node_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/plan/node_fate.h"
#include "formats/plan/region_note.h"
#include "runtime/verify/value_names.h"
#include "tools/rondo/plan_texts.h"

namespace rondo::tools {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string_view> LabelsAt(const PlanData& plan, uint32_t source) {
  return source < plan.sources.size() ? LabelsOf(plan.sources[source]) : std::vector<std::string_view>();
}

bool Is(std::string_view label, std::string_view name) { return label == name || NodeOfLabel(label) == name; }

// ", in region layer/attention": the innermost region that holds the step.
std::string RegionText(const PlanData& plan, const NodeStep& at) {
  std::string text;
  for (const RegionNote& note : RegionsOf(plan, plan.programs[at.program])) {
    if (note.first_step <= at.step && at.step <= note.last_step) text = ", in region " + note.region;
  }
  return text;
}

bool Runs(const Buffer& buffer) {
  return buffer.kind != BufferKind::kConstant && buffer.kind != BufferKind::kWorkspace;
}

}  // namespace

Result<std::vector<NodeAnswer>> AnswerOf(const PlanData& plan, std::string_view name) {
  std::map<std::string_view, NodeAnswer> answers;  // by label
  for (uint32_t p = 0; p < plan.programs.size(); ++p) {
    for (uint32_t s = 0; s < plan.programs[p].steps.size(); ++s) {
      const std::vector<std::string_view> labels = LabelsAt(plan, plan.programs[p].steps[s].source);
      for (std::string_view label : labels) {
        if (!Is(label, name)) continue;
        NodeStep step = {p, s, {}};
        for (std::string_view other : labels) {
          if (other != label) step.with.emplace_back(other);
        }
        answers[label].steps.push_back(std::move(step));
      }
    }
  }
  for (const std::string_view source : plan.sources) {
    std::string_view label;
    const plan::NodeFateRow* fate = plan::ReadNodeFate(source, &label);
    if (fate == nullptr || !Is(label, name)) continue;
    answers[label].became = fate->word;
    answers[label].sentence = fate->sentence;
  }
  if (answers.empty()) return Status::Error(Code::kNotFound, "%s", ValueNames(plan).NoNode(name).c_str());
  for (uint32_t b = 0; b < plan.buffers.size(); ++b) {
    for (std::string_view label : LabelsAt(plan, plan.buffers[b].source)) {
      const auto of = answers.find(label);
      if (of != answers.end() && of->second.steps.empty() != Runs(plan.buffers[b]))
        of->second.values.push_back(b);
    }
  }
  std::vector<NodeAnswer> list;
  for (auto& [label, answer] : answers) {
    answer.label = label;
    list.push_back(std::move(answer));
  }
  return list;
}

std::string TextOf(const PlanData& plan, const NodeAnswer& answer) {
  constexpr size_t kShown = 8;  // of the other nodes
  std::string text = answer.label;
  if (answer.steps.empty()) text += " " + answer.sentence;
  for (const NodeStep& at : answer.steps) {
    const Program& program = plan.programs[at.program];
    const Step& step = program.steps[at.step];
    text += "\n  program \"" + std::string(program.name) + "\", device " + std::to_string(step.device) +
            ", step " + std::to_string(at.step) + ": " + StepText(plan, step) + RegionText(plan, at);
    if (at.with.empty()) continue;
    text += ", with ";
    for (size_t i = 0; i < std::min(at.with.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + at.with[i];
    if (at.with.size() > kShown) text += " and " + std::to_string(at.with.size() - kShown) + " more";
  }
  for (uint32_t b : answer.values) text += "\n  " + ValueNames(plan).Describe(b);
  return text;
}

Json JsonOf(const PlanData& plan, const NodeAnswer& answer) {
  Json json = {{"node", answer.label}, {"became", answer.became.empty() ? "steps" : answer.became}};
  json["steps"] = Json::array();
  for (const NodeStep& at : answer.steps) {
    const Step& step = plan.programs[at.program].steps[at.step];
    json["steps"].push_back({{"program", std::string(plan.programs[at.program].name)},
                             {"device", step.device},
                             {"step", at.step},
                             {"does", StepText(plan, step)},
                             {"with", at.with}});
  }
  json["buffers"] = answer.values;
  return json;
}

}  // namespace rondo::tools
