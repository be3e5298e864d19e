#include "compiler/shard/on_every_device.h"

#include <utility>

#include "compiler/shard/assign.h"
#include "compiler/shard/describe.h"
#include "compiler/shard/pad_uneven.h"

namespace rondo::shard {
namespace {

constexpr int64_t kFarLarger = 8;  // a table must be so many times as large as the result

// The rule of a lookup that reads only the rows on each device; none if it does not pay.
std::vector<Rule> OwnRows(const Graph& graph, const Node& node, const Costs& costs) {
  if (node.op != ir::Op::kIndexedRead || !graph.IsConstant(node.inputs[0]) || !IsFloat(node.dtype)) return {};
  const Node& table = graph.node(node.inputs[0]);
  const int64_t bytes = BytesOf(table), devices = costs.devices();
  // A packed table is unpacked, which reads it in other ways.
  if (table.As<ir::ConstantAttrs>().data->packed != nullptr || table.shape.rank == 0 ||
      bytes < kFarLarger * BytesOf(node) || !costs.PaysAMessage(bytes))
    return {};
  const Sharding rows = SplitOf(table.shape, 0, table.shape[0] / devices, devices);
  if (!rows.is_split()) return {};
  std::vector<Rule> rules = RulesWith(graph, node, 0, rows, devices);
  std::erase_if(rules, [](const Rule& rule) { return rule.output != kPartial; });
  return rules;
}

// All values whole, except in those lookups.
Candidates Lookups(const Graph& graph, const Costs& costs, std::vector<std::string>* tables) {
  Candidates out;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    out.shardings.push_back({kWhole});
    if (node.dtype != DType::kBool) out.shardings.back().push_back(kPartial);
    out.rules.push_back({WholeRule(node)});
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const std::vector<Rule> rules = OwnRows(graph, node, costs);
    if (rules.empty()) continue;
    out.rules[static_cast<size_t>(id)] = {rules[0]};
    auto& shardings = out.shardings[static_cast<size_t>(node.inputs[0])];
    if (out.IndexOf(node.inputs[0], rules[0].inputs[0]) < 0) shardings.push_back(rules[0].inputs[0]);
    tables->push_back(NameOf(graph.node(node.inputs[0])));
  }
  return out;
}

// Makes shares flat, like those that are gathered (schedule/gather_weights.h). If a table is read in both
// ways, the plan holds one share.
void Flatten(Graph* graph) {
  for (NodeId id = 0; id < graph->size(); ++id) {
    if (!graph->IsConstant(id)) continue;
    Node& node = graph->node(id);
    auto& data = node.As<ir::ConstantAttrs>().data;
    if (data->part_of == nullptr) continue;
    auto flat = std::make_shared<ir::ConstantData>(*data);
    flat->shape = node.shape = Shape({data->shape.elements()});
    data = std::move(flat);
  }
}

std::vector<Graph> Copies(const Graph& stage, int64_t devices) {
  std::vector<Graph> all(static_cast<size_t>(devices), stage);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (NodeId id = 0; id < stage.size(); ++id) {
      if (stage.node(id).op != ir::Op::kCollective) continue;
      for (uint32_t& device : all[rank].node(id).As<ir::CollectiveAttrs>().group)
        device = device * static_cast<uint32_t>(devices) + static_cast<uint32_t>(rank);
    }
  }
  return all;
}

}  // namespace

Status OnEveryDevice(Graph stage, int64_t devices, StageNumber number, CopiedGraph* out) {
  *out = {};
  const Costs costs(stage, devices);
  Graph padded = stage;
  PadTables(costs, &padded);
  std::vector<std::string> tables;
  const Candidates candidates = Lookups(padded, costs, &tables);
  if (tables.empty()) {
    out->ranks = Copies(stage, devices);
    return Status::Ok();
  }
  const Assignment assignment = Assign(padded, candidates, costs, {});
  for (int64_t rank = 0; rank < devices; ++rank) {
    RONDO_ASSIGN_OR_RETURN(Graph local, RankGraph(padded, candidates, costs, assignment, rank, number));
    Flatten(&local);
    out->ranks.push_back(std::move(local));
  }
  for (const std::string& table : tables) out->text += (out->text.empty() ? "rows of " : ", ") + table;
  out->text += " are read where they are, and sent to all";
  return Status::Ok();
}

}  // namespace rondo::shard
