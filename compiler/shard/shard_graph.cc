#include "compiler/shard/shard_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "compiler/ir/loop.h"
#include "compiler/shard/assign.h"
#include "compiler/shard/cut_weight.h"
#include "compiler/shard/describe.h"
#include "compiler/shard/given_shardings.h"
#include "compiler/shard/pad_heads.h"
#include "compiler/shard/pad_uneven.h"
#include "compiler/shard/rank_graph.h"

namespace rondo::shard {
namespace {

constexpr int64_t kWorthNaming = 256;  // bytes of an unshared weight or state that the report names

bool Divides(const Shape& shape, int64_t devices) {
  return std::any_of(shape.begin(), shape.end(), [&](int64_t dim) { return dim % devices == 0; });
}

// The reason why every device holds all of it.
std::string Reason(const Graph& graph, const Candidates& candidates, NodeId id, int64_t devices) {
  if (!Divides(graph.node(id).shape, devices)) return "no dim of it divides by " + std::to_string(devices);
  const auto& shardings = candidates.shardings[static_cast<size_t>(id)];
  if (graph.IsConstant(id) && graph.node(id).As<ir::ConstantAttrs>().data->packed != nullptr &&
      std::ranges::none_of(shardings, &Sharding::is_split))
    return "no share of it has whole blocks of scales, 16 columns and 32 rows";
  if (std::ranges::none_of(shardings, &Sharding::is_split)) return "what reads it does not divide";
  return "to share it would send more than it saves";
}

// The weights of `whole` that device 0 holds unchanged, with reasons.
std::vector<std::string> NotShared(const Graph& whole, const Candidates& candidates, const Graph& rank,
                                   int64_t devices) {
  std::set<const ir::ConstantData*> kept;
  for (NodeId id = 0; id < rank.size(); ++id) {
    if (rank.IsConstant(id)) kept.insert(rank.node(id).As<ir::ConstantAttrs>().data.get());
  }
  struct Line {
    int64_t bytes;
    std::string text;
  };
  std::vector<Line> lines;
  const auto add = [&](NodeId id, const std::string& name) {
    const int64_t bytes = BytesOf(whole.node(id));
    if (bytes < kWorthNaming) return;
    lines.push_back({bytes, name + " (" + BytesText(bytes) + "): " + Reason(whole, candidates, id, devices)});
  };
  for (NodeId id = 0; id < whole.size(); ++id) {
    if (whole.IsConstant(id) && kept.count(whole.node(id).As<ir::ConstantAttrs>().data.get()) != 0)
      add(id, NameOf(whole.node(id)));
  }
  for (NodeId id = 0; id < whole.size(); ++id) {
    if (whole.node(id).op != ir::Op::kLoop) continue;
    const Graph& body = whole.node(id).As<ir::LoopAttrs>().info->body;
    for (NodeId in = 0; in < body.size(); ++in) {
      const int64_t bytes = body.IsConstant(in) ? BytesOf(body.node(in)) : 0;
      if (bytes < kWorthNaming) continue;
      lines.push_back({bytes, NameOf(body.node(in)) + " (" + BytesText(bytes) + "): it is read in a loop"});
    }
  }
  for (const ir::StatePair& pair : whole.states) {
    const auto input = static_cast<size_t>(pair.input);
    const NodeId id = whole.inputs[input].node;
    if (rank.node(rank.inputs[input].node).shape == whole.node(id).shape)
      add(id, "state " + whole.inputs[input].name);
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.bytes > b.bytes; });
  std::vector<std::string> texts;
  for (const Line& line : lines) texts.push_back(line.text);
  return texts;
}

// States with fewer parts than devices, so that a device holds more than its even share.
std::string SharedBySeveral(const Graph& whole, const Graph& rank, int64_t devices) {
  std::map<int64_t, std::vector<std::string>> names;  // by copies
  for (const ir::StatePair& pair : whole.states) {
    const auto input = static_cast<size_t>(pair.input);
    const int64_t all = BytesOf(whole.node(whole.inputs[input].node));
    const int64_t own = BytesOf(rank.node(rank.inputs[input].node));
    if (all > 0 && own < all && own * devices > all)
      names[own * devices / all].push_back(whole.inputs[input].name);
  }
  std::string text;
  for (const auto& [copies, states] : names) {
    text += "\neach part on " + std::to_string(copies) + " devices: state " + states[0];
    if (states.size() > 1) text += " and " + std::to_string(states.size() - 1) + " more";
    text += ", which has " + std::to_string(devices / copies) + " heads";
  }
  return text;
}

std::string Describe(const Graph& whole, const Candidates& candidates, const std::vector<Graph>& ranks) {
  const auto devices = static_cast<int64_t>(ranks.size());
  int reduces = 0, gathers = 0;
  for (NodeId id = 0; id < ranks[0].size(); ++id) {
    if (ranks[0].node(id).op != ir::Op::kCollective) continue;
    const CollectiveOp op = ranks[0].node(id).As<ir::CollectiveAttrs>().op;
    reduces += op == CollectiveOp::kAllReduce;
    gathers += op == CollectiveOp::kAllGather;
  }
  const Held all = HeldBy(whole), each = HeldBy(ranks[0]);
  std::string text = std::to_string(devices) + " devices, " + std::to_string(reduces) + " all-reduces, " +
                     std::to_string(gathers) + " all-gathers; each holds " + BytesText(each.weights) +
                     " of " + BytesText(all.weights) + " of weights";
  if (all.states > 0) text += ", " + BytesText(each.states) + " of " + BytesText(all.states) + " of state";
  text += SharedBySeveral(whole, ranks[0], devices);
  for (const std::string& kept : NotShared(whole, candidates, ranks[0], devices))
    text += "\non every device: " + kept;
  return text;
}

}  // namespace

Status RefuseCollectives(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.dead || node.op != ir::Op::kCollective || ir::HasEffect(node)) continue;
    return Status::Error(Code::kUnsupported,
                         "the model already has collectives, and says itself what each device does: give "
                         "--devices N in place of --tp N and --pp N")
        .FromNode(NameOf(node));
  }
  return Status::Ok();
}

namespace {

// The padded dims most of whose weights device 0 still holds whole: their padding was useless.
std::set<std::string> PaddedInVain(const std::vector<PaddedDim>& padded, const Graph& rank) {
  std::set<const ir::ConstantData*> kept;
  for (NodeId id = 0; id < rank.size(); ++id) {
    if (rank.IsConstant(id)) kept.insert(rank.node(id).As<ir::ConstantAttrs>().data.get());
  }
  std::set<std::string> names;
  for (const PaddedDim& dim : padded) {
    int64_t all = 0, whole = 0;
    for (const auto& data : dim.weights) {
      all += data->byte_size();
      whole += kept.count(data.get()) != 0 ? data->byte_size() : 0;
    }
    if (2 * whole > all) names.insert(dim.name);
  }
  return names;
}

// Whether each device has one range of equally many heads.
bool IsDealtOut(const PaddedState& state, const Graph& padded, Sharding sharding, int64_t devices) {
  for (const ir::GraphInput& input : padded.inputs) {
    if (input.name != state.input || !sharding.is_split() || sharding.copies != 1) continue;
    const SplitDim split = DimOf(padded.node(input.node).shape, sharding, devices);
    return split.dim == state.dim && split.inner * devices == state.to * state.inner;
  }
  return false;
}

std::string PaddedText(const std::vector<PaddedDim>& padded, int64_t devices) {
  std::map<std::tuple<bool, int64_t, int64_t>, std::vector<std::string>> dims;
  for (const PaddedDim& dim : padded) dims[{dim.heads, dim.from, dim.to}].push_back(dim.name);
  std::string text;
  for (const auto& [dim, names] : dims) {
    const auto& [heads, from, to] = dim;
    text += "\npadded, for " + std::to_string(devices) + " devices to divide it: " + std::to_string(from) +
            " to " + std::to_string(to) + (heads ? " heads, " : ", ") + names[0];
    if (names.size() > 1) text += " and " + std::to_string(names.size() - 1) + " more";
  }
  return text;
}

// Shards a graph whose weights are separate and whose dims are final.
Status ShardAsItIs(const Graph& graph, const Costs& costs, const DeviceHints* hints, StageNumber stage,
                   StateShardings* states, WeightShardings* weights, ShardedGraph* out) {
  const int64_t devices = costs.devices();
  *out = {};
  Given given = GivenShardings(graph, hints == nullptr ? DeviceHints() : *hints, devices, *states);
  Candidates candidates;
  do {
    candidates = FindCandidates(graph, costs, *states, given.shardings);
    NoteHeld(graph, *weights, &candidates);
  } while (!FollowGiven(graph, costs, &given, &candidates));
  const Assignment assignment = Assign(graph, candidates, costs, *states);
  for (const Step& step : assignment.steps) {
    const Node& node = graph.node(step.node);
    if (node.op != ir::Op::kInput) continue;
    const auto input = static_cast<size_t>(node.As<ir::InputAttrs>().index);
    if (PairOfInput(graph, input) < 0) continue;
    const Sharding sharding =
        candidates.shardings[static_cast<size_t>(step.node)][static_cast<size_t>(step.choice)];
    states->emplace(StateKey(graph, input), sharding);
    out->states[graph.inputs[input].name] = sharding;
  }
  for (int64_t rank = 0; rank < devices; ++rank) {
    RONDO_ASSIGN_OR_RETURN(ir::Graph local, RankGraph(graph, candidates, costs, assignment, rank, stage,
                                                      rank == 0 ? weights : nullptr));
    out->ranks.push_back(std::move(local));
  }
  out->text = Describe(graph, candidates, out->ranks) + given.Text();
  return Status::Ok();
}

}  // namespace

Status ShardGraph(Graph graph, int64_t devices, StateShardings* states, ShardedGraph* out, StageNumber stage,
                  const DeviceHints* hints, WeightShardings* weights, bool pad_states) {
  SeparateWeights(&graph);
  const Costs costs(graph, devices);
  const bool given = hints != nullptr && !hints->shares.empty();
  // Dims are padded so that weights can be divided. Dims for which that failed, which is known only
  // afterwards, are left unpadded in the next attempt.
  std::set<std::string> leave;
  for (;;) {
    Graph padded = graph;
    std::vector<PaddedDim> dims;
    if (!given) {
      dims = PadHeads(costs, leave, pad_states, &padded);
      for (PaddedDim& dim : PadUneven(costs, leave, &padded)) dims.push_back(std::move(dim));
    }
    StateShardings shardings = *states;
    WeightShardings held = weights == nullptr ? WeightShardings() : *weights;
    RONDO_RETURN_IF_ERROR(ShardAsItIs(padded, costs, hints, stage, &shardings, &held, out));
    std::set<std::string> in_vain = PaddedInVain(dims, out->ranks[0]);
    for (const PaddedDim& dim : dims) {
      for (const PaddedState& state : dim.states) {
        out->padded.push_back(state);
        if (!IsDealtOut(state, padded, out->states[state.input], devices)) in_vain.insert(dim.name);
      }
    }
    const size_t before = leave.size();
    leave.insert(in_vain.begin(), in_vain.end());
    if (leave.size() > before) continue;
    *states = std::move(shardings);
    if (weights != nullptr) *weights = std::move(held);
    out->text += PaddedText(dims, devices);
    return Status::Ok();
  }
}

}  // namespace rondo::shard
