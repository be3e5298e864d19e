#include "compiler/shard/stages.h"

#include <algorithm>
#include <map>

#include "compiler/shard/costs.h"
#include "compiler/shard/describe.h"
#include "compiler/shard/stage_graph.h"
#include "compiler/shard/transfers.h"

namespace rondo::shard {
namespace {

constexpr int64_t kWorthNaming = 4096;  // bytes of a weight on several stages that the report names
constexpr size_t kMostNames = 12;

int64_t SentBy(const Graph& graph, const Transfer& transfer) {
  return transfer.value == ir::kNoNode ? 1 : BytesOf(graph.node(transfer.value));
}

std::string DescribeStage(const Graph& graph, const StageCut& cut, const std::vector<Transfer>& transfers,
                          int number, const Graph& stage) {
  NodeId first = ir::kNoNode, last = ir::kNoNode;
  for (NodeId id : cut.order) {
    if (cut.stage_of[static_cast<size_t>(id)] != number) continue;
    if (first == ir::kNoNode) first = id;
    last = id;
  }
  const Held all = HeldBy(graph), held = HeldBy(stage);
  std::string text = "\nstage " + std::to_string(number) + ": " + BytesText(held.weights) + " of " +
                     BytesText(all.weights) + " of weights";
  if (all.states > 0) text += ", " + BytesText(held.states) + " of " + BytesText(all.states) + " of state";
  text += "; from " + SourceOf(graph.node(first)) + " to " + SourceOf(graph.node(last));
  for (const Transfer& transfer : transfers) {
    if (transfer.from == number) text += "\n  " + BytesText(SentBy(graph, transfer)) + ": " + transfer.source;
  }
  return text;
}

// The rows of states that `stage` holds, by input.
std::map<std::string, ir::View> RowsOf(const Graph& graph, const StageCut& cut, int stage) {
  std::map<std::string, ir::View> rows;
  for (size_t i = 0; i < graph.states.size(); ++i) {
    const StateRows& state = cut.states[i];
    const RowRange range = RowsOn(cut, i, stage);
    const ir::GraphInput& input = graph.inputs[static_cast<size_t>(graph.states[i].input)];
    const Shape& whole = graph.node(input.node).shape;
    if (whole.rank == 0 || range.first == range.end) continue;
    rows[input.name] = ir::Slice(ir::DenseView(whole), state.axis, range.first, 1, range.end - range.first);
  }
  return rows;
}

std::string DescribeShared(const std::vector<Graph>& stages) {
  struct Holder {
    std::string name, stages;
    int64_t bytes = 0;
    int count = 0;
  };
  std::map<const ir::ConstantData*, Holder> holders;
  for (size_t s = 0; s < stages.size(); ++s) {
    for (NodeId id = 0; id < stages[s].size(); ++id) {
      if (!stages[s].IsConstant(id)) continue;
      Holder& holder = holders[stages[s].node(id).As<ir::ConstantAttrs>().data.get()];
      holder.name = NameOf(stages[s].node(id));
      holder.bytes = BytesOf(stages[s].node(id));
      holder.stages += (holder.count++ == 0 ? "" : ", ") + std::to_string(s);
    }
  }
  std::vector<Holder> several;
  for (const auto& [data, holder] : holders) {
    if (holder.count > 1 && holder.bytes >= kWorthNaming) several.push_back(holder);
  }
  std::sort(several.begin(), several.end(), [](const Holder& a, const Holder& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  std::string text;
  for (size_t i = 0; i < several.size() && i < kMostNames; ++i)
    text += "\non stages " + several[i].stages + ": " + several[i].name + " (" + BytesText(several[i].bytes) +
            ")";
  if (several.size() > kMostNames)
    text += "\non several stages: " + std::to_string(several.size() - kMostNames) + " smaller ones";
  return text;
}

}  // namespace

Status CutIntoStages(const Graph& graph, int stages, bool host, StagePlaces* places, StagedGraph* out,
                     const DeviceHints* hints) {
  int64_t said = 0;  // number of stages that the model gives
  if (hints != nullptr) {
    for (const auto& [node, stage] : hints->stages) said = std::max(said, int64_t{stage} + 1);
  }
  Result<StageCut> found =
      said == stages ? CutAsGiven(graph, hints->stages, stages, places) : CutStages(graph, stages, places);
  if (!found.ok()) return found.status();
  const StageCut& cut = *found;
  const std::vector<Transfer> transfers = FindTransfers(graph, cut, host);
  RONDO_ASSIGN_OR_RETURN(out->stages, StageGraphs(graph, cut, transfers));
  for (int s = 0; s < stages; ++s) out->rows.push_back(RowsOf(graph, cut, s));
  int64_t bytes = 0;
  for (const Transfer& transfer : transfers) bytes += SentBy(graph, transfer);
  out->text = std::to_string(stages) + " stages, " + std::to_string(transfers.size()) +
              (transfers.size() == 1 ? " send of " : " sends of ") + BytesText(bytes) + " a run";
  for (int s = 0; s < stages; ++s)
    out->text += DescribeStage(graph, cut, transfers, s, out->stages[static_cast<size_t>(s)]);
  out->text += DescribeShared(out->stages);
  if (said == stages)
    out->text += "\nthe stages are those of the model's configuration \"" + hints->configuration + "\"";
  if (said != 0 && said != stages) {
    out->text += "\nnot followed: the model's configuration \"" + hints->configuration + "\" has " +
                 std::to_string(said) + " stages";
  }
  return Status::Ok();
}

}  // namespace rondo::shard
