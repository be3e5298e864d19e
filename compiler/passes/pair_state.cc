#include <algorithm>
#include <set>
#include <unordered_map>

#include "compiler/ir/port_names.h"
#include "compiler/ir/versions.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

template <typename List>
int IndexOf(const List& list, const std::string& name) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

// Whether the node gives its input as it is: a copy that an annotation asks for, or an assertion.
bool GivesItsInput(const Graph& g, const Node& n) {
  if (n.op != Op::kPointwise || n.inputs.size() != 1) return false;
  const TapeOp op = n.As<ir::PointwiseAttrs>().op;
  return op == TapeOp::kAssertFinite || (op == TapeOp::kCast && g.node(n.inputs[0]).dtype == n.dtype);
}

// True if `output` is `input` with some elements replaced: the path back leads only through views,
// concatenations, what gives its input, and the data of kIndexedWrites and of calls that change it (other
// paths may end at what is written).
bool IsUpdateOf(const Graph& g, NodeId output, NodeId input) {
  std::set<NodeId> seen;
  std::vector<NodeId> work = {output};
  while (!work.empty()) {
    const NodeId id = work.back();
    work.pop_back();
    if (id == input) return true;
    if (!seen.insert(id).second) continue;
    const Node& n = g.node(id);
    if (const ir::VersionStep step = ir::VersionStepOf(g, id); step.runs != ir::kNoNode) {
      work.push_back(g.node(step.runs).inputs[step.slot]);
    } else if (n.op == Op::kView || n.op == Op::kConcat || GivesItsInput(g, n)) {
      work.insert(work.end(), n.inputs.begin(), n.inputs.end());
    }
  }
  return false;
}

// Whether the input's name alone implies that its output is fed back: states of recurrent layers are
// recomputed in each run, and are not updates of the old state. ("past_key_values.0.recurrent_state",
// "past_ssm.0")
bool SaysState(const std::string& input) {
  const auto has = [&](const char* word) { return input.find(word) != std::string::npos; };
  return has("past") && (has("state") || has("conv") || has("ssm") || has("recurrent"));
}

std::string TypeText(const Node& n) {
  char text[160];
  return std::string(Name(n.dtype)) + Format(n.shape, text, sizeof(text));
}

// `states`, `taken`: inputs and outputs that are states.
Status PairDonations(ir::Graph* graph, const std::vector<std::string>& names, const std::set<int>& states,
                     std::set<int> taken) {
  graph->donations.clear();
  for (const std::string& name : names) {
    const int in = IndexOf(graph->inputs, name);
    const auto named = [&](const ir::Donation& donation) { return donation.input == in; };
    if (std::any_of(graph->donations.begin(), graph->donations.end(), named)) continue;
    if (states.count(in) != 0) {
      return Status::Error(
          Code::kInvalidArgument,
          "input %s cannot be donated: it is a state, which the session keeps and changes in "
          "place already",
          name.c_str());
    }
    const NodeId input = graph->inputs[static_cast<size_t>(in)].node;
    ir::Donation donation{in, -1};
    for (size_t o = 0; o < graph->outputs.size() && donation.output < 0; ++o) {
      const NodeId output = graph->outputs[o].node;
      const Node &a = graph->node(input), &b = graph->node(output);
      if (a.shape == b.shape && a.dtype == b.dtype && taken.count(static_cast<int>(o)) == 0 &&
          IsUpdateOf(*graph, output, input))
        donation.output = static_cast<int>(o);
    }
    taken.insert(donation.output);
    graph->donations.push_back(donation);
  }
  return Status::Ok();
}

}  // namespace

Result<PassResult> PairState(ir::Graph* graph, const PassOptions& options) {
  std::set<int> inputs, outputs;
  std::vector<ir::StatePair> pairs;
  auto pair = [&](int in, int out) {
    inputs.insert(in);
    outputs.insert(out);
    pairs.push_back({in, out});
  };
  for (const auto& [in_name, out_name] : options.states) {
    int in = IndexOf(graph->inputs, in_name), out = IndexOf(graph->outputs, out_name);
    if (in < 0 || out < 0) {
      return Status::Error(Code::kInvalidArgument, "state %s:%s: program %s has no %s named %s",
                           in_name.c_str(), out_name.c_str(), graph->name.c_str(),
                           in < 0 ? "input" : "output", in < 0 ? in_name.c_str() : out_name.c_str());
    }
    const Node& a = graph->node(graph->inputs[static_cast<size_t>(in)].node);
    const Node& b = graph->node(graph->outputs[static_cast<size_t>(out)].node);
    if (!(a.shape == b.shape) || a.dtype != b.dtype) {
      return Status::Error(Code::kInvalidArgument, "state %s:%s: the input is %s but the output is %s",
                           in_name.c_str(), out_name.c_str(), TypeText(a).c_str(), TypeText(b).c_str());
    }
    if (inputs.count(in) != 0 || outputs.count(out) != 0) {
      return Status::Error(Code::kInvalidArgument, "state %s:%s: one of them is in another state already",
                           in_name.c_str(), out_name.c_str());
    }
    pair(in, out);
  }
  std::unordered_map<std::string, int> output_of;  // the first of two with one name
  for (size_t o = graph->outputs.size(); o-- > 0;) output_of[graph->outputs[o].name] = static_cast<int>(o);
  for (size_t i = 0; options.auto_state && i < graph->inputs.size(); ++i) {
    const ir::GraphInput& input = graph->inputs[i];
    for (const std::string& name : ir::StateOutputNames(input.name)) {
      const auto found = name.empty() || name == input.name ? output_of.end() : output_of.find(name);
      if (found == output_of.end()) continue;
      const int out = found->second;
      if (inputs.count(static_cast<int>(i)) != 0 || outputs.count(out) != 0) continue;
      NodeId node = graph->outputs[static_cast<size_t>(out)].node;
      const Node &a = graph->node(input.node), &b = graph->node(node);
      if (!(a.shape == b.shape) || a.dtype != b.dtype) continue;
      // A cache whose rows are recomputed in each run also counts.
      const bool is_cache = std::find(options.fixed_caches.begin(), options.fixed_caches.end(), input.name) !=
                            options.fixed_caches.end();
      if (!is_cache && !SaysState(input.name) && !IsUpdateOf(*graph, node, input.node)) continue;
      pair(static_cast<int>(i), out);
    }
  }
  graph->states = std::move(pairs);
  RONDO_RETURN_IF_ERROR(PairDonations(graph, options.donations, inputs, std::move(outputs)));
  PassResult result;
  result.changes = static_cast<int64_t>(graph->states.size());
  result.text = Count(result.changes, "state");
  if (!graph->donations.empty())
    result.text += ", " + Count(static_cast<int64_t>(graph->donations.size()), "donated input");
  return result;
}

}  // namespace rondo::passes
