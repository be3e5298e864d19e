// The pass that combines small collectives into one (shard/combine_collectives.h) if the run is then
// estimated to end earlier. Devices then meet less often, but wait for the last of the exchanged values.
#include "compiler/shard/combine_collectives.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "compiler/program_passes.h"
#include "compiler/schedule/overlap.h"
#include "compiler/shard/cut_rows.h"

namespace rondo::program_passes {
namespace {

constexpr int64_t kMostTriedNodes = 50'000;  // nodes of one device's graph

// Describes the graph's collectives in order. Devices with equal texts combine in the same way.
std::string CollectivesText(const ir::Graph& graph) {
  std::string text;
  for (ir::NodeId id : shard::CollectivesOf(graph)) {
    const ir::Node& node = graph.node(id);
    const ir::CollectiveAttrs& attrs = node.As<ir::CollectiveAttrs>();
    text += std::to_string(static_cast<int>(attrs.op)) + "," + std::to_string(static_cast<int>(node.dtype)) +
            "," + std::to_string(node.shape.elements());
    for (uint32_t device : attrs.group) text += "," + std::to_string(device);
    text += ";";
  }
  return text;
}

// The sets of collectives to combine, without those in which devices outside `devices` take part; the program
// has `all` devices.
std::vector<std::vector<size_t>> SetsOf(const std::vector<ProgramInWork*>& devices, size_t all) {
  const ir::Graph& graph = devices[0]->graph;
  const std::vector<ir::NodeId> collectives = shard::CollectivesOf(graph);
  std::vector<std::vector<size_t>> sets = shard::FindCombinable(graph, {});
  std::erase_if(sets, [&](const std::vector<size_t>& set) {
    const std::vector<uint32_t>& group = graph.node(collectives[set[0]]).As<ir::CollectiveAttrs>().group;
    if (group.empty()) return devices.size() != all;
    return !std::all_of(group.begin(), group.end(), [&](uint32_t device) {
      return std::any_of(devices.begin(), devices.end(),
                         [&](const ProgramInWork* other) { return other->device == device; });
    });
  });
  return sets;
}

Result<double> EndOf(Compilation* compilation, ProgramInWork tried, size_t devices) {
  RONDO_RETURN_IF_ERROR(LowerOnTrial(compilation, &tried));
  return OverlapOnDevices({{0, &tried.planned.lowered, 0, 0}}, OverlapOptionsFor(*compilation, devices))[0]
      .end_after;
}

// Combines on all of `devices`, or on none.
Status CombineOn(Compilation* compilation, const std::vector<ProgramInWork*>& devices, size_t all,
                 std::string* text) {
  const std::vector<std::vector<size_t>> sets = SetsOf(devices, all);
  if (sets.empty() || devices[0]->graph.size() > kMostTriedNodes) return Status::Ok();
  std::vector<ir::Graph> combined;
  for (const ProgramInWork* device : devices) {
    combined.push_back(device->graph);
    if (!shard::CombineCollectives(&combined.back(), sets)) return Status::Ok();
  }
  ProgramInWork tried = *devices[0];
  RONDO_ASSIGN_OR_RETURN(const double apart, EndOf(compilation, tried, all));
  tried.graph = combined[0];
  RONDO_ASSIGN_OR_RETURN(const double together, EndOf(compilation, std::move(tried), all));
  size_t members = 0;
  for (const std::vector<size_t>& set : sets) members += set.size();
  char times[80];
  std::snprintf(times, sizeof times, "%.1f us by estimate, %.1f us apart", together, apart);
  *text += (text->empty() ? "" : "\n") + NameOf(compilation->options, *devices[0]) + ": " +
           std::to_string(members) + " collectives as " + std::to_string(sets.size()) + ": " + times +
           (together < apart ? "" : "; not taken");
  if (together >= apart) return Status::Ok();
  for (size_t d = 0; d < devices.size(); ++d) devices[d]->graph = std::move(combined[d]);
  return Status::Ok();
}

}  // namespace

Status CombineSmallCollectives(Compilation* compilation, ProgramInWork*, std::string* text) {
  std::map<std::string, size_t> all;  // devices, by program
  std::map<std::pair<std::string, std::string>, std::vector<ProgramInWork*>> alike;
  for (ProgramInWork& program : compilation->programs) {
    ++all[program.source.program];
    alike[{program.source.program, CollectivesText(program.graph)}].push_back(&program);
  }
  for (const auto& [of, devices] : alike)
    RONDO_RETURN_IF_ERROR(CombineOn(compilation, devices, all[of.first], text));
  return Status::Ok();
}

}  // namespace rondo::program_passes
