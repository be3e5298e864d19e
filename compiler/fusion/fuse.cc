#include "compiler/fusion/fuse.h"

#include <algorithm>
#include <map>

#include "compiler/fusion/context.h"

namespace rondo {

using fusion::Context;
using fusion::Obstacle;
using ir::NodeId;
using ir::Op;
using ir::View;

namespace {

// Makes the read of input `slot` of `reader` plain: the view's storage is copied in the order in which a
// prefix of the view can walk it.
void CopyInput(ir::Graph* graph, NodeId reader, int slot) {
  NodeId input = graph->node(reader).inputs[slot];
  View view = graph->ViewOf(input);
  NodeId base = graph->BaseOf(input);
  if (view.affine()) {
    graph->SetInput(reader, static_cast<size_t>(slot), fusion::InsertCopy(graph, input));
    return;
  }
  // All steps but the last show the tensor that the last step reads: copy that one densely.
  View prefix = view;
  ir::ViewStep last = prefix.steps.back();
  prefix.steps.pop_back();
  auto add_view = [&](NodeId of, const View& shown) {
    ir::Node node;
    node.op = Op::kView;
    node.dtype = graph->node(of).dtype;
    node.shape = shown.shape();
    node.attrs = ir::ViewAttrs{shown};
    node.inputs = {of};
    node.sources = graph->node(input).sources;
    return graph->Add(std::move(node));
  };
  NodeId copy = fusion::InsertCopy(graph, add_view(base, prefix));
  NodeId shown = add_view(copy, View{{last}});
  graph->SetInput(reader, static_cast<size_t>(slot), shown);
}

// Changes the graph so that the next try does not meet the same obstacle.
bool Remove(ir::Graph* graph, const Obstacle& obstacle, std::map<std::pair<NodeId, int>, int>* tried,
            int* copies) {
  NodeId reader = obstacle.reader;
  if (reader < 0 || reader >= graph->size()) return false;
  int& times = (*tried)[{reader, obstacle.slot}];
  ++times;
  ir::Node& node = graph->node(reader);
  bool off = node.annotations.count("fuse") > 0 && node.annotations.at("fuse") == "off";
  if (!off) {
    node.annotations["fuse"] = "off";
    return true;
  }
  if (obstacle.slot < 0 || times > 8) return false;
  CopyInput(graph, reader, obstacle.slot);
  ++*copies;
  return true;
}

}  // namespace

Result<LoweredProgram> Fuse(const ir::Graph& graph, const FuseOptions& options, FuseReport* report) {
  ir::Graph working = graph;
  fusion::WidenAtReaders(&working);
  fusion::LoweredLoops loops;
  for (NodeId id = 0; id < working.size(); ++id) {
    if (working.node(id).dead || working.node(id).op != Op::kLoop) continue;
    const std::shared_ptr<const ir::LoopInfo> info = working.node(id).As<ir::LoopAttrs>().info;
    RONDO_ASSIGN_OR_RETURN(loops[info.get()], fusion::LowerLoop(info, options));
  }
  std::map<std::pair<NodeId, int>, int> tried;
  FuseReport local;
  FuseReport* out = report != nullptr ? report : &local;
  *out = FuseReport();
  constexpr int kMaxTries = 64, kPatience = 6;
  for (int attempt = 0; attempt < kMaxTries; ++attempt) {
    Context context;
    RONDO_RETURN_IF_ERROR(fusion::Prepare(working, options, loops, &context));
    fusion::FormGroups(&context);
    std::vector<Obstacle> obstacles;
    RONDO_RETURN_IF_ERROR(fusion::EmitGroups(&context, &obstacles));
    if (obstacles.empty()) {
      out->parts = static_cast<int>(context.groups.size());
      for (const fusion::Group& group : context.groups) out->nodes += static_cast<int>(group.nodes.size());
      if (options.horizontal) fusion::FuseHorizontally(&context.program);
      out->kernels = static_cast<int>(context.program.ops.size());
      out->text = std::to_string(out->nodes) + " nodes in " + std::to_string(out->parts) + " parts of " +
                  std::to_string(out->kernels) + " kernels, " + std::to_string(out->copies) + " copies";
      return std::move(context.program);
    }
    for (const Obstacle& obstacle : obstacles) {
      // Preparing only appends nodes; go on from its graph if what it appended is named.
      const std::vector<NodeId>& members = context.groups[static_cast<size_t>(obstacle.group)].nodes;
      const NodeId last = *std::max_element(members.begin(), members.end());
      if (std::max(obstacle.reader, last) >= working.size()) working = context.graph;
    }
    for (const Obstacle& obstacle : obstacles) {
      // Node by node takes as many tries as the worst part has nodes: after a few, all of it is taken apart.
      const std::vector<NodeId>& members = context.groups[static_cast<size_t>(obstacle.group)].nodes;
      if (attempt >= kPatience && members.size() > 1) {
        for (NodeId id : members) working.node(id).annotations["fuse"] = "off";
        continue;
      }
      if (Remove(&working, obstacle, &tried, &out->copies)) continue;
      std::string what = fusion::SourcesOf(context.node(obstacle.reader));
      return Status::Error(Code::kUnsupported,
                           "no loops read the operands of %s in place, and copying them did not help",
                           what.c_str())
          .FromNode(what);
    }
  }
  return Status::Error(Code::kInternal, "fusion did not settle after %d tries", kMaxTries);
}

}  // namespace rondo
