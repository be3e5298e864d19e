// Notes among a plan's sources (PlanData::sources) about ONNX nodes that no step names: `view Op "node"`.
// Nothing refers to them.
#pragma once

#include <string>
#include <string_view>

namespace rondo::plan {

// In order of priority: the first fate that holds for any part of a node is the node's.
enum class NodeFate { kRuns, kJoined, kConstant, kView, kGone, kKnown, kUnneeded };

struct NodeFateRow {
  NodeFate fate;
  std::string_view word;      // first word of the text
  std::string_view sentence;  // for people, after the node's name
};
inline constexpr NodeFateRow kNodeFates[] = {
    {NodeFate::kJoined, "joined", "runs nothing: what computes its pieces writes them to their places"},
    {NodeFate::kConstant, "constant", "is a constant: its result was computed when the model was compiled"},
    {NodeFate::kView, "view", "is a view: it shows its input in another shape or order, and runs nothing"},
    {NodeFate::kGone, "gone", "runs nothing of its own: the nodes that read it compute without its result"},
    {NodeFate::kKnown, "known",
     "runs nothing: it hands its input on, or its result is known when the model is compiled"},
    {NodeFate::kUnneeded, "unneeded", "runs nothing: no output of the model needs it"},
};

// `label`: `Op "node"`.
inline std::string TextOf(NodeFate fate, const std::string& label) {
  for (const NodeFateRow& row : kNodeFates) {
    if (row.fate == fate) return std::string(row.word) + " " + label;
  }
  return label;
}

// The row of a text, with its `*label`; null if it is another text.
inline const NodeFateRow* ReadNodeFate(std::string_view text, std::string_view* label) {
  for (const NodeFateRow& row : kNodeFates) {
    if (!text.starts_with(row.word) || text.size() <= row.word.size() || text[row.word.size()] != ' ')
      continue;
    *label = text.substr(row.word.size() + 1);
    return &row;
  }
  return nullptr;
}

}  // namespace rondo::plan
